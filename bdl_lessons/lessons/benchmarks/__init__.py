"""Tools for those who write lessons: rebuild and guard notebooks, make panel data, benchmark."""
