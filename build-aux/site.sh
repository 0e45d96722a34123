#!/bin/sh
# site.sh SOURCE OUT: makes the folder OUT, a site of the manual pages and the texts of the folder
# SOURCE, which links page to page. It needs mandoc; the texts are turned into HTML by markdown.awk.
# The front page is README.md, with its output and its picture.
set -eu
[ $# -eq 2 ] || { echo "site.sh: expected two folders: SOURCE OUT" >&2; exit 2; }
command -v mandoc >/dev/null || { echo "site.sh: no mandoc (package: mandoc)" >&2; exit 6; }
source=$1 out=$2 here=$(dirname "$0")
new=$out.new
rm -rf "$new"
mkdir -p "$new/share/pictures"
cp "$source"/share/pictures/*.svg "$new/share/pictures/"
cp "$here/site.css" "$new/"

pages=$(cd "$source/man" && printf '%s\n' *.[1-9])
# The texts below SOURCE, with the pages that they become: README.md is index.html, a/b.md is a/b.html
texts='README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md bench/RESULTS.md bench/README.md bench/cuda/MEASURED.md
    bench/cuda/PREDICTED.md share/repeat/RESULTS.md share/repeat/ROUTERS.md tests/README.md tests/RESULTS.md'

# head TITLE UP, foot: what stands around each page. UP: the way to the front page
head() {
    cat <<END
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>$1</title><link rel="stylesheet" href="$2site.css"></head>
<body><nav><a href="$2index.html">moefw</a>
<a href="$2ARCHITECTURE.html">Architecture</a> <a href="$2CONTRIBUTING.html">Contributing</a> <a href="$2NEWS.html">News</a>
<span>$(for page in $pages; do echo "<a href=\"$2$page.html\">${page%.*}(${page##*.})</a>"; done)</span></nav>
<main>
END
}
foot() {
    echo '</main></body></html>'
}

for page in $pages; do
    {
        head "${page%.*}(${page##*.})" ''
        mandoc -Thtml -Ofragment,man=%N.%S.html "$source/man/$page"
        foot
    } >"$new/$page.html"
done
for text in $texts; do
    [ -f "$source/$text" ] || { echo "site.sh: $source/$text: missing" >&2; exit 1; }
    page=${text%.md}.html
    [ "$text" = README.md ] && page=index.html
    up=$(printf '%s\n' "$text" | sed 's,[^/]*/,../,g; s,[^/]*$,,')
    mkdir -p "$new/$(dirname "$page")"
    {
        head "$(sed -n 's/^# //p;1q' "$source/$text")" "$up"
        awk -v pages=" $(echo $pages) " -v texts=" $(echo $texts) " -v at="$(dirname "$text")" -v up="$up" \
            -f "$here/markdown.awk" "$source/$text"
        foot
    } >"$new/$page"
done
{
    head News ''
    echo '<pre>'
    sed 's/&/\&amp;/g; s/</\&lt;/g' "$source/NEWS"
    echo '</pre>'
    foot
} >"$new/NEWS.html"
rm -rf "$out"
mv "$new" "$out"
echo "$out/index.html"
