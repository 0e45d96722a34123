/* graph/device/code.c: loads images of plugins on a device, each image once. An image that has
 * nothing for the device is loaded again for the next graph, so that the device's error text
 * describes this image. */
#include "graph/device/code.h"

#include "base/error.h"
#include "base/mem.h"

struct mf_code {
    mf_code *next;
    const void *image;
    void *loaded;
};

/* Records an error, except MF_EDEP; for MF_EDEP the caller writes its own text. */
static int told(mf_device *d, int code)
{
    return code == MF_EDEP ? code : mf_device_failed(d, code);
}

int mf_code_load(mf_device *d, const mf_device_code *code, mf_code **ret)
{
    mf_code *c = d->codes;
    if (!d->ops->code_load) return MF_EDEP;
    while (c && c->image != code->image)
        c = c->next;
    *ret = c;
    if (c) return MF_OK;
    c = mf_alloc(1, sizeof *c);
    if (!c) return MF_ENOMEM;
    const int rc = d->ops->code_load(d, code->image, &c->loaded);
    if (rc != MF_OK) {
        mf_free(c);
        return told(d, rc);
    }
    c->image = code->image;
    c->next = d->codes;
    *ret = d->codes = c;
    return MF_OK;
}

int mf_code_kernel(mf_device *d, mf_code *code, const char *name, void **ret)
{
    return told(d, d->ops->code_kernel(d, code->loaded, name, ret));
}

void mf_codes_free(mf_device *d)
{
    if (d->codes) (void)d->ops->synchronize(d, NULL);
    while (d->codes) {
        mf_code *c = d->codes;
        d->codes = c->next;
        d->ops->code_free(d, c->loaded);
        mf_free(c);
    }
}
