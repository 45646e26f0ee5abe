"""What ``make`` installs, when it does so again, and what it says while it does."""
