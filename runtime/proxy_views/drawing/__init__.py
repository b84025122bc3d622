"""Draws graphs: as a picture, or as a page in which the boxes of modules open and close."""
