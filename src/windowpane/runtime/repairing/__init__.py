"""`windowpane repair`: side rows are folded into the closed windows that they missed."""
