// own_router.cc: a router that is part of the program, registered and trained. It multiplies
// the logits of a linear router by a factor that is learned with the rest.
//
//     c++ own_router.cc $(pkg-config --cflags --libs libmoefw) && ./a.out [STEPS]
#include <cstdio>
#include <moefw/moefw.h>
#include <moefw/run.h>
#include <string>

namespace
{

struct conf {
    double start;
};

int init(void *, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = static_cast<const conf *>(conf_);
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
    const mf_init start = mf_init_of(MF_INIT_CONST, c->start, 0);
    if (rc == MF_OK) rc = mf->param(ctx, "factor", mf_shape1(1), start);
    return rc;
}

int route(void *, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), nullptr);
    out->logits = mf_mul(g, logits, mf->use(ctx, g, "factor"));
    return mf->status(g);
}

const mf_option options[] = {
    MF_OPTION_REAL(conf, start, "1", 0.01, 100, 0, "the factor before training"),
    MF_END_OPTIONS};
const mf_router vtable = {sizeof(mf_router), 0, init, nullptr, route, nullptr};
const mf_plugin scaled = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "scaled", "1.0", "MIT",
                                        "linear, times a learned factor", options, conf, char,
                                        &vtable);

class Run
{
public:
    Run() : run(moefw_run_new()) {}
    ~Run() { moefw_run_free(run); }
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;
    operator moefw_run *() const { return run; }

private:
    moefw_run *run;
};

void show(void *, const moefw_metrics *m)
{
    std::printf("%s, step %d: loss %.4f\n", m->split, static_cast<int>(m->step), m->task_loss);
}

} // namespace

int main(int argc, char **argv)
{
    const std::string steps = argc > 1 ? argv[1] : "40";
    Run run;
    if (moefw_run_register_plugin(run, &scaled) != MF_OK ||
        moefw_run_configure(run, "default") != MF_OK ||
        moefw_run_use_plugin(run, "scaled") != MF_OK ||
        moefw_run_set(run, "router.start", "2") != MF_OK ||
        moefw_run_set(run, "data.path", "builtin:topics?bytes=40000") != MF_OK ||
        moefw_run_set(run, "train.steps", steps.c_str()) != MF_OK ||
        moefw_run_on_metrics(run, show, nullptr) != MF_OK ||
        moefw_run_start(run, nullptr) != MF_OK || moefw_run_train(run) != MF_OK) {
        std::fprintf(stderr, "%s\n", moefw_run_message(run));
        return 1;
    }
    std::printf("router.start = %s\n", moefw_run_get(run, "router.start"));
    return 0;
}
