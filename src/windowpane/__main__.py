"""`python -m windowpane`: the same as the program `windowpane`."""

from windowpane.cli import main

if __name__ == "__main__":
    main()
