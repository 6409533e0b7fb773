"""Files and objects that hold tables or edge lists: opened, and read in blocks of rows."""
