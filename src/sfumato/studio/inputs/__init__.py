"""What comes into the studio: files of the data folder, and fields of forms."""
