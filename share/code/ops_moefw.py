"""The ops of moefw in PyTorch, as evaluation computes them. modeling_moefw.py calls them.

op_NAME(i, f, inputs): i are the op's whole numbers, f its real numbers; inputs that are absent are
None. Each does what the op of that name does in moefw (moefw-plugin(7), and core/ops of the
sources). T tokens, E experts, R assignments of a token to an expert. An index below 0 means none.
"""
import math

import torch
import torch.nn.functional as F

# ---- gemms, norms, attention ----


def op_linear(i, f, x, w, b=None):
    return F.linear(x, w, b)


def op_matmul(i, f, a, b):
    a = a.transpose(-1, -2) if i[0] else a
    b = b.transpose(-1, -2) if i[1] else b
    return f[0] * (a @ b)


def by_group(x, offset, function, width):
    """y[r] = function(e, x[r]) for offset[e] <= r < offset[e + 1], and 0 in rows of no group."""
    y = x.new_zeros(x.shape[0], width)
    bounds = offset.tolist()
    for e in range(len(bounds) - 1):
        lo, hi = bounds[e], bounds[e + 1]
        if hi > lo:
            y[lo:hi] = function(e, x[lo:hi])
    return y


def op_grouped_linear(i, f, x, w, offset, b=None):
    return by_group(x, offset, lambda e, r: F.linear(r, w[e], None if b is None else b[e]), w.shape[1])


def op_rmsnorm(i, f, x, w=None):
    mean = x.square().mean(-1, keepdim=True)
    y = x / (mean.sqrt() + f[0]) if i[0] else x * torch.rsqrt(mean + f[0])
    return y if w is None else y * w


def op_layernorm(i, f, x, w=None, b=None):
    return F.layer_norm(x, x.shape[-1:], w, b, f[0])


def op_grouped_layernorm(i, f, x, offset, w=None, b=None):
    def norm(e, rows):
        return F.layer_norm(rows, rows.shape[-1:], None if w is None else w[e], None if b is None else b[e], f[0])

    return by_group(x, offset, norm, x.shape[1])


def op_l2_normalize(i, f, x):
    return x / x.square().sum(-1, keepdim=True).sqrt().clamp(min=f[0])


def op_rope(i, f, x, position, factor=None):
    head_dim, heads, half, inverse, first, turned = i[:6]
    turned = turned or head_dim - first
    pairs = turned // 2
    rate = torch.arange(pairs, dtype=torch.float64, device=x.device)
    angle = position.double()[:, None] * f[0] ** (-2 * rate / turned)
    if factor is not None:
        angle = angle * factor.double()
    size = f[1] if f[1] > 0 else 1.0
    cos = (size * angle.cos()).float()[:, None]
    sin = (size * angle.sin()).float()[:, None] * (-1 if inverse else 1)
    y = x.clone()
    part = y[:, : heads * head_dim].view(-1, heads, head_dim)[..., first : first + turned]
    if half:
        u, v = part[..., :pairs].clone(), part[..., pairs:].clone()
        part[..., :pairs], part[..., pairs:] = u * cos - v * sin, u * sin + v * cos
    else:
        u, v = part[..., 0::2].clone(), part[..., 1::2].clone()
        part[..., 0::2], part[..., 1::2] = u * cos - v * sin, u * sin + v * cos
    return y


def op_attention(i, f, q, k=None, v=None, mask=None, kv_len=None, since=None):
    batch, heads, kv_heads, causal, window = i[:5]
    if k is None:
        head_dim = q.shape[1] // (heads + 2 * kv_heads)
        q, k, v = q.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], 1)
    n, S = q.shape[0] // batch, k.shape[0] // batch
    q = q.reshape(batch, n, heads, -1).transpose(1, 2)
    k, v = (x.reshape(batch, S, kv_heads, -1).transpose(1, 2) for x in (k, v))
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    score = f[0] * (q @ k.transpose(-1, -2))
    key = torch.arange(S, device=q.device)
    own = torch.arange(n, device=q.device)[:, None] + S - n
    hidden = torch.zeros(batch, 1, n, S, dtype=torch.bool, device=q.device)
    if causal:
        hidden |= key > own
    if window:
        hidden |= key <= own - window
    if mask is not None:
        hidden |= mask.reshape(batch, 1, 1, S) == 0
    if since is not None:
        hidden |= key < since.reshape(batch, 1, n, 1)
    score = score.masked_fill(hidden, -torch.inf)
    lse = score.logsumexp(-1, keepdim=True)
    y = (score - lse).exp().nan_to_num(0.0) @ v
    return y.transpose(1, 2).reshape(batch * n, -1), lse.squeeze(-1).transpose(1, 2).reshape(batch * n, heads)


def op_grouped_attention(i, f, q, kv, offset, token, mask=None):
    batch, heads, causal, own = i[:4]
    y = torch.zeros_like(q)
    lse = q.new_zeros(q.shape[0], heads)
    width = q.shape[1]
    bounds = offset.tolist()
    S = kv.shape[0] // batch
    for e in range(len(bounds) - 1):
        lo, hi = bounds[e], bounds[e + 1]
        if lo == hi:
            continue
        rows = q[lo:hi].reshape(hi - lo, heads, -1).transpose(0, 1)
        both = kv[lo:hi] if own else kv[:, 2 * e * width : 2 * (e + 1) * width]
        k, v = (x.reshape(both.shape[0], heads, -1).transpose(0, 1) for x in both.split(width, 1))
        score = f[0] * (rows @ k.transpose(-1, -2))
        if not own:
            at, key = token[lo:hi, None], torch.arange(batch * S, device=q.device)
            hidden = (key // S != at // S) | (bool(causal) & (key > at))
            if mask is not None:
                hidden |= mask == 0
            score = score.masked_fill(hidden, -torch.inf)
        log = score.logsumexp(-1, keepdim=True)
        y[lo:hi] = ((score - log).exp().nan_to_num(0.0) @ v).transpose(0, 1).reshape(hi - lo, width)
        lse[lo:hi] = log.squeeze(-1).transpose(0, 1)
    return y, lse


def op_swiglu(i, f, a, b=None, gate=None):
    if b is None:
        a, b = a.chunk(2, -1)
    y = F.silu(a) * b
    return y if gate is None else gate * y


def op_embedding(i, f, table, ids):
    return table[ids]


# ---- functions of elements ----


def op_add(i, f, a, b):
    return a + b


def op_sub(i, f, a, b):
    return a - b


def op_mul(i, f, a, b):
    return a * b


def op_div(i, f, a, b):
    if a.is_floating_point():
        return a / b
    q = torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc")
    return torch.where(b == 0, 0, q).to(a.dtype)


def op_maximum(i, f, a, b):
    return torch.maximum(a, b)


def op_minimum(i, f, a, b):
    return torch.minimum(a, b)


def op_greater(i, f, a, b):
    return (a > b).to(a.dtype)


def op_exp(i, f, x):
    return x.exp()


def op_log(i, f, x):
    return x.log()


def op_sqrt(i, f, x):
    return x.sqrt()


def op_square(i, f, x):
    return x.square()


def op_reciprocal(i, f, x):
    return x.reciprocal()


def op_abs(i, f, x):
    return x.abs()


def op_relu(i, f, x):
    return x.relu()


def op_gelu(i, f, x):
    return F.gelu(x)


def op_gelu_tanh(i, f, x):
    return F.gelu(x, approximate="tanh")


def op_silu(i, f, x):
    return F.silu(x)


def op_sigmoid(i, f, x):
    return x.sigmoid()


def op_tanh(i, f, x):
    return x.tanh()


def op_softplus(i, f, x):
    return torch.logaddexp(x, torch.zeros_like(x))


def op_normal_cdf(i, f, x):
    return torch.special.ndtr(x)


def op_xlogx(i, f, x):
    return torch.special.xlogy(x, x)


def op_sign(i, f, x):
    return x.sign()


def op_affine(i, f, x):
    return f[0] * x + f[1]


def op_clamp(i, f, x):
    return x.clamp(f[0], f[1])


def op_cast(i, f, x):
    return x.to(torch.int32 if i[0] == 2 else torch.float32)


def op_dropout(i, f, x):
    return x  # only training drops


# ---- reductions, shapes ----


def axes_of(bits, x):
    return [d for d in range(x.dim()) if bits >> d & 1]


def op_sum(i, f, x):
    axes = axes_of(i[0], x)
    return x.sum(axes, keepdim=bool(i[1])) if axes else x


def op_mean(i, f, x):
    axes = axes_of(i[0], x)
    return x.mean(axes, keepdim=bool(i[1])) if axes else x


def op_sum_to(i, f, x):
    return x.sum_to_size(i[1 : 1 + i[0]])


def op_reshape(i, f, x):
    return x.reshape(i[1 : 1 + i[0]])


def op_stop_gradient(i, f, x):
    return x.detach()


def op_broadcast(i, f, x):
    return x.expand(i[1 : 1 + i[0]])


def op_transpose(i, f, x):
    return x.permute(i[: x.dim()])


def part_of(axis, start, number):
    return (slice(None),) * axis + (slice(start, start + number),)


def op_slice(i, f, x):
    return x[part_of(i[0], i[1], i[2])]


def op_pad(i, f, x):
    shape = list(x.shape)
    shape[i[0]] = i[2]
    y = x.new_zeros(shape)
    y[part_of(i[0], i[1], x.shape[i[0]])] = x
    return y


def op_concat(i, f, *x):
    return torch.cat(x, i[0])


def op_softmax(i, f, x):
    return x.softmax(-1)


def op_log_softmax(i, f, x):
    return x.log_softmax(-1)


def op_logsumexp(i, f, x):
    return x.logsumexp(-1, keepdim=True)


def op_row_max(i, f, x):
    return x.amax(-1, keepdim=True)


# ---- rows and indices ----


def op_gather_rows(i, f, x, index):
    return torch.where((index >= 0)[:, None], x[index.clamp(min=0)], 0)


def op_scatter_rows(i, f, x, index):
    used = index >= 0
    return x.new_zeros(i[0], x.shape[1]).index_add(0, index[used].long(), x[used])


def op_take(i, f, x, index):
    return torch.where(index >= 0, x.gather(1, index.clamp(min=0).long()), 0)


def op_put(i, f, x, index):
    x = torch.where(index >= 0, x, 0)
    return x.new_zeros(x.shape[0], i[0]).scatter_add(1, index.clamp(min=0).long(), x)


def op_topk(i, f, x):
    # of equal elements the lower index comes first, which torch.topk does not promise
    return x.nan_to_num(nan=-torch.inf).sort(dim=-1, descending=True, stable=True).indices[:, : i[0]].int()


def op_one_hot(i, f, index):
    return (index[..., None] == torch.arange(i[0], device=index.device)).float()


def op_bincount(i, f, index, weight=None):
    index = index.reshape(-1)
    used = index >= 0
    weight = used.float() if weight is None else weight.reshape(-1)
    return torch.zeros(i[0], device=index.device).index_add(0, index[used].long(), weight[used])


# ---- mixture of experts ----


def op_mask_rows(i, f, expert, mask, token=None):
    of = torch.arange(expert.shape[0], device=expert.device) // i[0] if token is None else token
    return torch.where(mask[of.clamp(min=0)] != 0, expert, -1)


def op_route_select(i, f, score, mask=None):
    chosen = op_topk(i, f, score)
    if mask is not None:
        chosen = torch.where(mask[:, None] != 0, chosen, -1)
    return chosen.reshape(-1)


def op_route_gates(i, f, prob, chosen, admitted=None):
    expert = chosen if admitted is None else torch.where(admitted >= 0, admitted, chosen)
    gate = op_take(i, f, prob, expert.reshape(prob.shape[0], i[0]))
    if i[1]:
        total = gate.sum(1, keepdim=True)
        gate = torch.where(total < 1e-20, 0, gate / total)
    return f[0] * gate.reshape(-1)


def op_capacity_of(i, f, factor, mask=None):
    tokens, k, experts = i[:3]
    real = tokens if mask is None else int((mask != 0).sum())
    most = math.floor(float(factor) * real * k / experts * (1 + 2**-23))
    return torch.full((experts,), float(max(most, 1)), device=factor.device)


def in_order(priority, rows):
    """The rows by falling priority, NaN last, then by number."""
    if priority is None:
        return rows
    key = priority[rows].nan_to_num(nan=-torch.inf)
    return rows[key.sort(dim=0, descending=True, stable=True).indices]


def op_admit(i, f, chosen, priority, cap):
    admitted = torch.full_like(chosen, -1)
    for e, most in enumerate(cap.tolist()):
        rows = in_order(priority, (chosen == e).nonzero().flatten())[: int(most)]
        admitted[rows] = e
    return admitted


def op_reassign(i, f, chosen, admitted, prob, importance, cap):
    k, most = i[:2]
    out = admitted.clone()
    load = op_bincount([len(cap)], f, out)
    moved = 0
    for e in range(len(cap)):
        for r in in_order(importance, ((chosen == e) & (admitted < 0)).nonzero().flatten()).tolist():
            if most and moved == most:
                break
            t = r // k
            score = prob[t].double() / (1 + load.double())
            taken = torch.cat([chosen[t * k : t * k + k], out[t * k : t * k + k]])
            score[taken[taken >= 0].long()] = torch.nan
            score[load + 1 > cap] = torch.nan
            if bool(score.isnan().all()):
                continue
            best = int(score.nan_to_num(nan=-torch.inf).argmax())
            out[r] = best
            load[best] += 1
            moved += 1
    return out, torch.tensor(float(moved), device=cap.device)


def op_group_rows(i, f, expert, token=None):
    """order, offset, token and place: the assignments by expert, and by token within an expert."""
    k, experts = i[:2]
    R = expert.shape[0]
    row = torch.arange(R, device=expert.device)
    of = row // k if token is None else token.long()
    used = expert >= 0
    key = torch.where(used, expert.long(), experts) * (int(of.max()) + 2 if R else 1) + of.clamp(min=0)
    order = torch.where(used, key, key + R).sort(stable=True).indices
    last = int(used.sum())
    place = torch.full_like(row, -1)
    place[order[:last]] = row[:last]
    token = of[order]
    token[last:] = -1
    order = order.clone()
    order[last:] = -1
    count = torch.bincount(expert[used].long(), minlength=experts)
    offset = F.pad(count.cumsum(0), (1, 0))
    return tuple(x.int() for x in (order, offset, token, place))


def op_dispatch_rows(i, f, x, token, place, token_of_row=None):
    return op_gather_rows(i, f, x, token)


def op_combine_rows(i, f, y, gate, place, token_of_row=None):
    k, tokens = i[:2]
    rows = op_gather_rows(i, f, y, place)
    if gate is not None:
        rows = torch.where((place >= 0)[:, None], gate[:, None] * rows, 0)
    if token_of_row is None:
        return rows.reshape(tokens, k, -1).sum(1)
    return op_scatter_rows([tokens], f, rows, token_of_row)


def op_return_rows(i, f, y, token, place, token_of_row=None):
    return op_combine_rows(i, f, y, None, place, token_of_row)


# ---- ops of the plugins of moefw ----


def op_lapsum_soft_topk(i, f, u):
    """p = F(u - b) with the sum k, F the distribution function of Laplace; b by bisection."""
    u = u.double()
    k = i[0]
    if k >= u.shape[1]:
        return torch.ones_like(u).float()

    def share(b):
        v = u - b
        return torch.where(v <= 0, v.clamp(max=0).exp() / 2, 1 - (-v.clamp(min=0)).exp() / 2)

    room = 2 * math.log(2 * u.shape[1])
    lo, hi = u.amin(1, keepdim=True) - room, u.amax(1, keepdim=True) + room
    for _ in range(100):
        mid = (lo + hi) / 2
        many = share(mid).sum(1, keepdim=True) > k
        lo, hi = torch.where(many, mid, lo), torch.where(many, hi, mid)
    return share((lo + hi) / 2).float()


def op_sparsemixer_best(i, f, z):
    """k experts one after the other, each with its probability among those that are near it."""
    left, experts, gates = z.clone(), [], []
    for _ in range(i[0]):
        top, best = left.max(1, keepdim=True)
        far = (top - z) / torch.maximum(z.abs(), top) > 2 * f[0]
        p = left.masked_fill(far, -torch.inf).scatter(1, best, top).softmax(1)
        experts.append(best)
        gates.append(p.gather(1, best))
        left = left.scatter(1, best, -torch.inf)
    return torch.cat(experts, 1).int(), torch.cat(gates, 1)


WORD = 2**64 - 1


def mix(z):
    """splitmix64 (Steele et al. 2014)"""
    z = (z + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def place_of_id(token, vocab, seed):
    """The place of an id in an order that the seed draws, by a Feistel network of four rounds."""
    half = 1
    while 1 << (2 * half) < vocab:
        half += 1
    low = (1 << half) - 1
    while True:
        for r in range(4):
            left, right = token >> half, token & low
            token = right << half | ((left ^ mix(seed ^ (r << 32) ^ right)) & low)
        if token < vocab:
            return token


def op_hash_route(i, f, x):
    experts, hashes, seed, source, table, vocab = i[:6]
    seed = mix(seed & WORD)

    def key_of(row):
        if source == 0:
            return place_of_id(row, vocab, seed) if table == 1 and row < vocab else mix(seed ^ row)
        h = seed
        if source == 1:  # sign bits, 64 a word
            for at in range(0, len(row), 64):
                h = mix(h ^ sum((v < 0) << n for n, v in enumerate(row[at : at + 64])))
            return h
        for v in row:
            q = v / f[0]
            q = round(q) if abs(q) < 9e15 else 0  # NaN and infinities count as 0
            h = mix(h ^ (q & WORD))
        return h

    chosen = []
    for row in x.tolist():
        key, own = key_of(row), []
        e = key % experts
        for n in range(hashes):
            while e in own:
                e = (e + 1) % experts
            own.append(e)
            e = mix((key + n + 1) & WORD) % experts
        chosen += own
    return torch.tensor(chosen, dtype=torch.int32, device=x.device)


OPS = {name[3:]: function for name, function in list(globals().items()) if name.startswith("op_")}
