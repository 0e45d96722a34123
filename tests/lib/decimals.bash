# Read by each bash that runs a bats file (BASH_ENV, run-bats.sh): tools of the tests read and write decimals with a
# point. The program under test keeps the locale of the user.
awk() { LC_ALL=C command awk "$@"; }
sort() { LC_ALL=C command sort "$@"; }
