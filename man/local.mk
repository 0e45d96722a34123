# Manual pages, one a line.
dist_man_MANS =
