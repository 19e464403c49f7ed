/* The functions that a file may need, in Python. */
#include "exports/pytorch/parts.h"

static const char *const helpers[TORCH_NHELPS] = {
    [TORCH_HELP_GROUP] = "class Group(nn.Module):\n"
                         "    \"\"\"Modules, parameters and buffers under one name.\"\"\"\n\n"
                         "    def __init__(self, /, **members):\n"
                         "        super().__init__()\n"
                         "        for name, member in members.items():\n"
                         "            if isinstance(member, nn.Module):\n"
                         "                self._modules[name] = member\n"
                         "            elif isinstance(member, nn.Parameter):\n"
                         "                self._parameters[name] = member\n"
                         "            else:\n"
                         "                self._buffers[name] = member\n",
    [TORCH_HELP_ATTENTION] =
        "def attention(q, k, v, heads, causal=False, add=()):\n"
        "    \"\"\"Scaled dot product attention of q [N, T, E] over k, v [N, S, E]; add: masks "
        "and biases [N, heads, T, S].\"\"\"\n"
        "    q, k, v = (x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2) for x in "
        "(q, k, v))\n"
        "    if not add and hasattr(F, \"scaled_dot_product_attention\"):\n"
        "        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)\n"
        "    else:\n"
        "        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5\n"
        "        if causal:\n"
        "            later = torch.ones(scores.shape[-2:], dtype=torch.bool, "
        "device=q.device).triu(1)\n"
        "            scores = scores.masked_fill(later, float(\"-inf\"))\n"
        "        for a in add:\n"
        "            scores = scores.masked_fill(~a, float(\"-inf\")) if a.dtype == torch.bool "
        "else scores + a\n"
        "        shares = F.softmax(scores, dim=-1)\n"
        "        if add:  # zeros where no key is seen\n"
        "            shares = shares.masked_fill(scores.amax(-1, keepdim=True) == float(\"-inf\"), "
        "0)\n"
        "        y = shares @ v\n"
        "    return y.transpose(1, 2).flatten(2)\n",
    [TORCH_HELP_GATHER] =
        "def gather(x, dim, *index):\n"
        "    \"\"\"x[index]; NaN, 0 or False where the index along dim is out of range.\"\"\"\n"
        "    inside = (index[dim] >= 0) & (index[dim] < x.shape[dim])\n"
        "    place = torch.where(inside, index[dim], torch.zeros_like(index[dim])).long()\n"
        "    y = x[index[:dim] + (place,) + index[dim + 1 :]]\n"
        "    return y.masked_fill(~inside, float(\"nan\") if y.is_floating_point() else 0)\n",
    [TORCH_HELP_SCATTER] =
        "def scatter_add(x, shape, dim, *index):\n"
        "    \"\"\"Sums of x's elements by index; one whose index along dim is out of range is "
        "left "
        "out.\"\"\"\n"
        "    inside = (index[dim] >= 0) & (index[dim] < shape[dim])\n"
        "    place = torch.where(inside, index[dim], torch.zeros_like(index[dim])).long()\n"
        "    index = index[:dim] + (place,) + index[dim + 1 :]\n"
        "    return x.new_zeros(shape).index_put(index, x.masked_fill(~inside, 0), "
        "accumulate=True)\n",
    [TORCH_HELP_SCATTER_MAX] =
        "def scatter_max(x, shape, dim, *index):\n"
        "    \"\"\"The largest of x's elements by index, or 0; one out of range along dim is left "
        "out.\"\"\"\n"
        "    inside = (index[dim] >= 0) & (index[dim] < shape[dim])\n"
        "    room = [n + (i == dim) for i, n in enumerate(shape)]  # a place for those\n"
        "    place, flat = torch.where(inside, index[dim], shape[dim]), 0\n"
        "    for i, n in zip(index[:dim] + (place,) + index[dim + 1 :], room):\n"
        "        flat = flat * n + i\n"
        "    y = x.new_zeros(torch.Size(room).numel())\n"
        "    flat = flat.long().expand(x.shape).reshape(-1)\n"
        "    y = y.scatter_reduce(0, flat, x.reshape(-1), \"amax\", include_self=False)\n"
        "    return y.reshape(room).narrow(dim, 0, shape[dim])\n",
    [TORCH_HELP_ALONG] =
        "def along(x, dim, size, stride, start=0, div=1, outside=\"zero\"):\n"
        "    \"\"\"Elements (i * stride + start) // div of x along dim, for i = 0 ... size - "
        "1.\"\"\"\n"
        "    i = torch.arange(size, device=x.device) * stride + start\n"
        "    exact = (i % div == 0) | (outside != \"exact\")\n"
        "    i, last = torch.div(i, div, rounding_mode=\"floor\"), x.shape[dim] - 1\n"
        "    if outside == \"wrap\":\n"
        "        i = i % (last + 1)\n"
        "    elif outside == \"reflect\":\n"
        "        i = i % max(2 * last, 1)\n"
        "        i = torch.minimum(i, 2 * last - i)\n"
        "    y = x.index_select(dim, i.clamp(0, last))\n"
        "    if outside in (\"wrap\", \"reflect\", \"edge\"):\n"
        "        return y\n"
        "    gap = ~((i >= 0) & (i <= last) & exact).reshape([-1] + [1] * (x.dim() - dim - 1))\n"
        "    return y.masked_fill(gap, {\"lowest\": float(\"-inf\"), \"nan\": "
        "float(\"nan\")}.get(outside, 0))\n",
    [TORCH_HELP_RECURRENCE] =
        "def recurrence(x, weights, mode, reverse=False, start=None, cell=False):\n"
        "    \"\"\"A recurrent layer in one direction over x [..., T, E]; mode: lstm, gru, "
        "rnn_tanh or rnn_relu.\n\n"
        "    start [..., 1 or 2, H]: the states before the first step, h and an LSTM's c. With "
        "cell, "
        "the last c follows\n    the states of all steps.\n    \"\"\"\n"
        "    h = x.flip(-2) if reverse else x\n"
        "    h = h.reshape((-1,) + h.shape[-2:])\n"
        "    states = 2 if mode == \"lstm\" else 1\n"
        "    sizes = (h.shape[0], states, weights[1].shape[1])\n"
        "    start = h.new_zeros(sizes) if start is None else start.reshape(sizes)\n"
        "    first = start.transpose(0, 1).contiguous().split(1)\n"
        "    grad = torch.is_grad_enabled()\n"
        "    y, *last = getattr(torch, mode)(h, first if states == 2 else first[0], weights, "
        "len(weights) == 4, 1, 0.0,\n"
        "                                    grad, False, True)\n"
        "    y = y.reshape(x.shape[:-1] + (y.shape[-1],))\n"
        "    y = y.flip(-2) if reverse else y\n"
        "    return torch.cat([y, last[1].reshape(y.shape[:-2] + (1, -1))], -2) if cell else y\n",
    [TORCH_HELP_SCAN] =
        "def linear_scan(a, b, dim, reverse=False):\n"
        "    \"\"\"h[t] = a[t] h[t-1] + b[t] along dim, or from its end on.\"\"\"\n"
        "    h, steps = None, []\n"
        "    a, b = torch.broadcast_tensors(torch.as_tensor(a), torch.as_tensor(b))\n"
        "    for x, y in list(zip(a.unbind(dim), b.unbind(dim)))[::-1 if reverse else 1]:\n"
        "        h = y if h is None else x * h + y\n"
        "        steps.append(h)\n"
        "    return torch.stack(steps[::-1] if reverse else steps, dim) if steps else b\n",
    [TORCH_HELP_STEPS] =
        "def scan(step, xs, states, steps, reverse=False):\n"
        "    \"\"\"Applies step to slices of xs along their first axis and to states, one after "
        "the "
        "other.\n\n"
        "    step returns values and the next states. Out: the values of all steps, and the last "
        "states.\n    \"\"\"\n"
        "    made = []\n"
        "    for t in range(steps)[:: -1 if reverse else 1]:\n"
        "        values, states = step(*(x[t] for x in xs), *states)\n"
        "        made.append(values)\n"
        "    return [torch.stack(v) for v in zip(*(made[::-1] if reverse else made))] + "
        "list(states)\n",
};

void dl_torch_put_helpers(const torch_export *t, dl_buf *to) {
    for (int i = 0; i < TORCH_NHELPS; i++)
        if (t->helps >> i & 1) dl_putf(to, "%s\n\n", helpers[i]);
}
