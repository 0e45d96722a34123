#!/bin/sh
# Stands for the unit tests where configure did not find the library check.
echo "1..0 # SKIP the unit tests: the library check is not here (Debian's package check); install it and configure again"
