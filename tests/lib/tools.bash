# Read by each bash that runs a bats file (BASH_ENV, run-bats.sh): tools of the tests read and write decimals with a
# point, and speak English. The program under test keeps the locale of the user.
awk() { LC_ALL=C command awk "$@"; }
diff() { LC_ALL=C command diff "$@"; }
sort() { LC_ALL=C command sort "$@"; }
printf() {
    case $1 in
    *%*[feg]*) local LC_ALL=C ;;
    esac
    builtin printf "$@"
}
