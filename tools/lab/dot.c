/* lab/dot.c: writes a graph as Graphviz text, with a cluster per scope, a box per op and an
 * ellipse per leaf. */
#include "lab/dot.h"

#include "base/error.h"
#include "base/text/shown.h"
#include "graph/internal.h"

#include <string.h>

static const char *const kind_text[] = {
    [MF_TENSOR_VALUE] = "value",   [MF_TENSOR_INPUT] = "input", [MF_TENSOR_PARAM] = "parameter",
    [MF_TENSOR_GRAD] = "gradient", [MF_TENSOR_LIVE] = "live",   [MF_TENSOR_CONST] = "constant"};

static const char *const leaf_colour[] = {
    [MF_TENSOR_VALUE] = "white",     [MF_TENSOR_INPUT] = "lightblue",
    [MF_TENSOR_PARAM] = "palegreen", [MF_TENSOR_GRAD] = "darkseagreen",
    [MF_TENSOR_LIVE] = "khaki",      [MF_TENSOR_CONST] = "lightgrey"};

static void put_quoted(FILE *out, const char *text)
{
    for (text = mf_shown(text); *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static bool shown(const mf_node *node, bool all)
{
    return all || !node->gradient_part;
}

static void put_node(FILE *out, const mf_graph *g, int i)
{
    char shape[MF_SHAPE_TEXT];
    const mf_node *node = g->nodes[i];
    fprintf(out, "    n%d [label=\"", i);
    put_quoted(out, node->op->name);
    if (node->backward) fputs(" backward", out);
    for (int o = 0; o < node->n_out; o++)
        if (node->out[o])
            fprintf(out, "\\n%s %s", mf_dtype_text(node->out[o]->dtype),
                    mf_shape_text(node->out[o]->shape, shape));
    fprintf(out, "\"%s%s];\n", node->dead ? ", style=dashed, color=grey" : "",
            node->metric ? ", fontcolor=blue" : "");
}

/* Writes a cluster with all nodes of one scope, if node `first` is the first of them. */
static void put_cluster(FILE *out, const mf_graph *g, int first, bool all)
{
    const char *scope = g->nodes[first]->scope;
    for (int i = 0; i < first; i++)
        if (shown(g->nodes[i], all) && strcmp(g->nodes[i]->scope, scope) == 0) return;
    if (*scope) {
        fprintf(out, "  subgraph cluster_%d {\n    label=\"", first);
        put_quoted(out, scope);
        fputs("\";\n", out);
    }
    for (int i = first; i < g->n_nodes; i++)
        if (shown(g->nodes[i], all) && strcmp(g->nodes[i]->scope, scope) == 0)
            put_node(out, g, i);
    if (*scope) fputs("  }\n", out);
}

static bool is_read(const mf_graph *g, const mf_tensor *t, bool all)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        for (int j = 0; shown(node, all) && j < node->n_in; j++)
            if (node->in[j] == t && node->reads >> j & 1u) return true;
    }
    return false;
}

static void put_leaf(FILE *out, const mf_tensor *t)
{
    char shape[MF_SHAPE_TEXT];
    fprintf(out, "  t%d [shape=ellipse, style=filled, fillcolor=%s, label=\"%s%s", t->id,
            leaf_colour[t->kind], kind_text[t->kind], t->name ? "\\n" : "");
    if (t->name) put_quoted(out, t->name);
    fprintf(out, "\\n%s %s\"];\n", mf_dtype_text(t->dtype), mf_shape_text(t->shape, shape));
}

static void put_edges(FILE *out, const mf_graph *g, int i)
{
    const mf_node *node = g->nodes[i];
    for (int j = 0; j < node->n_in; j++) {
        const mf_tensor *t = node->in[j];
        if (!t || !(node->reads >> j & 1u)) continue;
        if (t->node >= 0)
            fprintf(out, "  n%d -> n%d;\n", t->node, i);
        else
            fprintf(out, "  t%d -> n%d;\n", t->id, i);
    }
}

int mf_graph_dot(const mf_graph *g, bool all, FILE *out)
{
    if (mf_graph_status(g) != MF_OK) return mf_graph_status(g);
    fputs("digraph moefw {\n  node [shape=box, fontname=\"sans-serif\"];\n"
          "  graph [fontname=\"sans-serif\", style=rounded];\n",
          out);
    for (int i = 0; i < g->n_nodes; i++)
        if (shown(g->nodes[i], all)) put_cluster(out, g, i, all);
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->node < 0 && is_read(g, g->tensors[i], all))
            put_leaf(out, g->tensors[i]);
    for (int i = 0; i < g->n_nodes; i++)
        if (shown(g->nodes[i], all)) put_edges(out, g, i);
    fputs("}\n", out);
    return ferror(out) ? mf_fail(MF_EIO, "the graph could not be written") : MF_OK;
}
