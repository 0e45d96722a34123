#!/bin/sh
# baselines.sh: what a classifier without a network reaches on the data of tagat.sh: the most
# frequent class, and a linear model of words (softmax regression). A sentence has its words as
# features; a pair of sentences the words that both have, those that one of them has, and how many
# these are. Trained on the first --train-limit examples in their order, 30 passes with a falling
# rate; weights are the mean over the last 20 passes. For the relatedness of SICK: the mean of the
# training pairs, the share of words that both sentences have, and ridge regression on the same
# features (penalty 1, the mean subtracted; conjugate gradients). No random numbers, so the figures
# repeat.
set -u
usage='usage: baselines.sh --train FILE --test FILE [--train-limit N]

  --train FILE       SENTENCE TAB LABEL, or SICK with its line of names
  --test FILE        sentences whose classes are predicted, in the same form
  --train-limit N    (4000; 0: all)
  -h, --help         this text

Prints the sums of the files, so that a table can name its data.'
train='' test='' limit=4000
while [ $# -gt 0 ]; do
    case $1 in
    --train | --test | --train-limit)
        [ $# -ge 2 ] || { echo "baselines.sh: $1: expected a value" >&2; exit 2; }
        case $1 in
        --train) train=$2 ;;
        --test) test=$2 ;;
        --train-limit) limit=$2 ;;
        esac
        shift 2
        ;;
    -h | --help)
        echo "$usage"
        exit 0
        ;;
    *)
        echo "baselines.sh: unknown '$1'" >&2
        echo "$usage" >&2
        exit 2
        ;;
    esac
done
if [ -z "$train" ] || [ -z "$test" ]; then
    echo "$usage" >&2
    exit 2
fi
case $limit in
'' | *[!0-9]*)
    echo "baselines.sh: --train-limit: expected a whole number, found '$limit'" >&2
    exit 2
    ;;
esac
for file in "$train" "$test"; do
    [ -r "$file" ] || { echo "baselines.sh: cannot read $file" >&2; exit 3; }
done
sha256sum "$train" "$test" || exit 1
LC_ALL=C awk -F '\t' -v limit="$limit" '
# Adds feature f to example n of this file, once.
function feature(n, f) {
    if ((n, f) in has) return
    has[n, f] = 1
    x[n] = x[n] "\t" f
}
function words_of(text, set,    k, i, w) {
    split("", set)
    k = split(tolower(text), w, /[^a-z0-9\047]+/)
    for (i = 1; i <= k; i++) if (w[i] != "") set[w[i]] = 1
}
FNR == 1 { file++; pairs = $2 == "sentence_A"; if (pairs) next }
file == 1 && limit > 0 && n_train >= limit { next }
{
    n++
    if (file == 1) n_train++
    y[n] = pairs ? $5 : $2
    sub(/\r$/, "", y[n])
    if (file == 1 && !(y[n] in seen)) { seen[y[n]] = 1; class[++classes] = y[n] }
    if (file == 1) count[y[n]]++
    words_of($(pairs ? 2 : 1), a)
    if (!pairs) for (w in a) feature(n, w)
    else {
        words_of($3, b)
        both = one = 0
        for (w in a) if (w in b) { feature(n, "+" w); both++ } else { feature(n, "-" w); one++ }
        for (w in b) if (!(w in a)) { feature(n, "-" w); one++ }
        feature(n, "both=" (both > 12 ? 12 : both))
        feature(n, "one=" (one > 12 ? 12 : one))
        t[n] = $4
        overlap[n] = both + one > 0 ? both / (both + one) : 0
    }
    feature(n, "1")
}
function scores(i, weight, out,    k, j, f, c) {
    for (c = 1; c <= classes; c++) out[c] = 0
    k = split(x[i], f, "\t")
    for (j = 2; j <= k; j++)
        for (c = 1; c <= classes; c++)
            if ((f[j], c) in weight) out[c] += weight[f[j], c]
    return k
}
# The sum of the weights of the features of example i that were trained.
function sum_of(i, w,    k, j, f, s) {
    k = split(x[i], f, "\t")
    for (j = 2; j <= k; j++) if (f[j] in w) s += w[f[j]]
    return s + 0
}
# out = (X^T X + 1) v, where X has a row for each training example
function normal(v, out,    i, j, k, f, s) {
    for (j in v) out[j] = v[j]
    for (i = 1; i <= n_train; i++) {
        s = sum_of(i, v)
        k = split(x[i], f, "\t")
        for (j = 2; j <= k; j++) out[f[j]] += s
    }
}
# Fills ridge so that (X^T X + 1) ridge = X^T (t - average).
function regress(    i, j, k, f, r, p, q, square, before, first, step) {
    for (i = 1; i <= n_train; i++) {
        k = split(x[i], f, "\t")
        for (j = 2; j <= k; j++) r[f[j]] += t[i] - average
    }
    for (j in r) { ridge[j] = 0; p[j] = r[j]; square += r[j] * r[j] }
    first = square
    for (i = 1; i <= 1000 && square > 1e-16 * first; i++) {
        normal(p, q)
        step = 0
        for (j in p) step += p[j] * q[j]
        step = square / step
        before = square
        square = 0
        for (j in p) {
            ridge[j] += step * p[j]
            r[j] -= step * q[j]
            square += r[j] * r[j]
        }
        for (j in p) p[j] = r[j] + square / before * p[j]
    }
}
# Pearson correlation with t of what was predicted of the test examples.
function pearson(said,    i, m, a, b, ab, aa, bb) {
    m = n - n_train
    for (i = n_train + 1; i <= n; i++) { a += said[i] / m; b += t[i] / m }
    for (i = n_train + 1; i <= n; i++) {
        ab += (said[i] - a) * (t[i] - b)
        aa += (said[i] - a) ^ 2
        bb += (t[i] - b) ^ 2
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0
}
function relatedness(    i, m, off, spread) {
    m = n - n_train
    for (i = 1; i <= n_train; i++) average += t[i] / n_train
    regress()
    for (i = n_train + 1; i <= n; i++) {
        said[i] = average + sum_of(i, ridge)
        off += (said[i] - t[i]) ^ 2 / m
        spread += (average - t[i]) ^ 2 / m
    }
    printf "relatedness, the mean    mse %.4f\n", spread
    printf "share of common words    pearson %.4f\n", pearson(overlap)
    printf "ridge regression         pearson %.4f, mse %.4f\n", pearson(said), off
}
END {
    if (n_train == 0 || n == n_train) { print "baselines.sh: no examples" > "/dev/stderr"; exit 3 }
    passes = 30
    for (pass = 1; pass <= passes; pass++) {
        rate = 0.2 / (1 + pass / 5)
        for (i = 1; i <= n_train; i++) {
            scores(i, weight, s)
            top = s[1]; sum = 0
            for (c = 2; c <= classes; c++) if (s[c] > top) top = s[c]
            for (c = 1; c <= classes; c++) sum += p[c] = exp(s[c] - top)
            k = split(x[i], f, "\t")
            for (c = 1; c <= classes; c++) {
                g = rate * ((y[i] == class[c]) - p[c] / sum)
                for (j = 2; j <= k; j++) weight[f[j], c] += g
            }
        }
        for (w in weight) weight[w] *= 1 - 0.01 * rate
        if (pass > 10) for (w in weight) mean[w] += weight[w] / (passes - 10)
    }
    best = class[1]
    for (c = 2; c <= classes; c++) if (count[class[c]] > count[best]) best = class[c]
    for (i = n_train + 1; i <= n; i++) {
        scores(i, mean, s)
        at = 1
        for (c = 2; c <= classes; c++) if (s[c] > s[at]) at = c
        right += class[at] == y[i]
        most += best == y[i]
    }
    m = n - n_train
    printf "%d examples to train on, %d to test, %d classes\n", n_train, m, classes
    printf "the most frequent class  %.4f\nlinear model of words    %.4f\n", most / m, right / m
    if (pairs) relatedness()
}' "$train" "$test"
