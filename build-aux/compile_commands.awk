# compile_commands.awk: the compile lines of a dry run of make as compile_commands.json. -v folder=DIR: the build folder.
function quoted(s) {
    gsub(/\\/, "\\\\", s)
    gsub(/"/, "\\\"", s)
    return "\"" s "\""
}
BEGIN { print "[" }
# Lines end with a backslash where make's recipe goes on.
/\\$/ { held = held substr($0, 1, length - 1) " "; next }
{ line = held $0; held = "" }
line ~ / -c -o [^ ]+ / {
    sub(/^.*`;[ \t]*/, "", line) # depbase=`...`;
    sub(/[ \t]*&&.*$/, "", line)
    sub(/^[ \t]+/, "", line)
    file = line
    sub(/^.* /, "", file)
    gsub(/['"`]/, "", file)
    if (file !~ /\.(c|cc|cu)$/ || seen[file]++) next
    printf "%s{\"directory\": %s, \"file\": %s, \"command\": %s}", n++ ? ",\n" : "", quoted(folder), quoted(file), quoted(line)
}
END { print "\n]" }
