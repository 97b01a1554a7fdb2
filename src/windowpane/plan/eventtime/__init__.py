"""Event time at planning: its types, the settings in force, and the steps that find a row's time."""
