"""Draws graphs: as a picture, or as a page in which module boxes open and close."""
