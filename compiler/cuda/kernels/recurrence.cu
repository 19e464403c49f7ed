/* The steps of recurrent layers and their gradient (ir/recurrence.h). A CTA has a few sequences,
 * LINES of them, and goes through all steps; its states are in shared memory, or where this is too
 * small in the workspace. The columns of a step's product are spread over the threads. E:
 * elements.cu */
enum recurrent_cell { LSTM, GRU, RNN_TANH, RNN_RELU };
struct recurrence_shape {
    long batch, steps;
    int size, gates, saved, states, ends;
    bool reverse;
};

INLINE float recurrent_exp(float a) { return s_exp(a); }
INLINE double recurrent_exp(double a) { return d_exp(a); }
INLINE float recurrent_tanh(float a) { return s_tanh(a); }
INLINE double recurrent_tanh(double a) { return d_tanh(a); }
template <class T> INLINE T recurrent_sigmoid(T a) { return 1 / (1 + recurrent_exp(-a)); }

/* Item by item, the weight [gates size][size] with its terms first: [size][gates size]. */
template <class E>
INLINE void recurrent_pack(const recurrence_shape &s, const typename E::memory *w,
                           typename E::number *to) {
    long rows = (long)s.gates * s.size, i = (long)blockIdx.x * blockDim.x + kd_thread();
    if (i < rows * s.size) to[i] = E::get(w, i % rows * s.size + i / rows);
}

/* z[line][column] = sum over k of a[line][k] w[k][column]. */
template <int LINES, class T, class W, class GET>
INLINE void recurrent_products(const T *a, int terms, const W *w, int columns, T *z, GET get) {
    for (int c = kd_thread(); c < columns; c += blockDim.x) {
        T sum[LINES];
        for (int l = 0; l < LINES; l++) sum[l] = 0;
        for (int k = 0; k < terms; k++) {
            T b = get(w, (long)k * columns + c);
            for (int l = 0; l < LINES; l++) sum[l] += a[(long)l * terms + k] * b;
        }
        for (int l = 0; l < LINES; l++) z[(long)l * columns + c] = sum[l];
    }
}

/* State k of the sequences: row k of the `rows` that each one has at p, or 0 without p. */
template <class E, int LINES>
INLINE void recurrent_bring(const recurrence_shape &s, const typename E::memory *p, long rows,
                            long k, typename E::number *state) {
    long first = (long)blockIdx.x * LINES;
    for (int i = kd_thread(); i < LINES * s.size; i += blockDim.x) {
        long line = first + i / s.size;
        state[i] = p && line < s.batch ? E::get(p, (line * rows + k) * s.size + i % s.size) : 0;
    }
}
template <class E, int LINES>
INLINE void recurrent_leave(const recurrence_shape &s, typename E::memory *p, long rows, long k,
                            const typename E::number *state) {
    long first = (long)blockIdx.x * LINES;
    for (int i = kd_thread(); i < LINES * s.size; i += blockDim.x) {
        long line = first + i / s.size;
        if (line < s.batch) E::put(p, (line * rows + k) * s.size + i % s.size, state[i]);
    }
}

/* `start`: the first states, or null. `packed`: recurrent_pack's. `memory`: LINES (2 + gates) size
 * numbers. */
template <class E, int CELL, int LINES>
INLINE void recurrent_steps(const recurrence_shape &s, const typename E::memory *p,
                            const typename E::memory *bias, const typename E::memory *start,
                            typename E::memory *y, typename E::memory *saved,
                            const typename E::number *packed, typename E::number *memory) {
    typedef typename E::number T;
    int size = s.size, rows = s.gates * size;
    T *h = memory, *c = h + LINES * size, *u = c + LINES * size;
    long first = (long)blockIdx.x * LINES;
    recurrent_bring<E, LINES>(s, start, s.states, 0, h);
    if (CELL == LSTM) recurrent_bring<E, LINES>(s, start, s.states, 1, c);
    __syncthreads();
    for (long i = 0; i < s.steps; i++) {
        recurrent_products<LINES>(h, size, packed, rows, u, plain_elements<T>::get);
        __syncthreads();
        for (int at = kd_thread(); at < LINES * size; at += blockDim.x) {
            int line = at / size, j = at % size;
            if (first + line >= s.batch) continue;
            long step = (first + line) * s.steps + (s.reverse ? s.steps - 1 - i : i);
            long row = step + (first + line) * s.ends; /* of y */
            const typename E::memory *q = p + step * rows + j;
            typename E::memory *keep = saved + step * s.saved * size + j;
            T g[4], state;
            for (int k = 0; k < s.gates; k++)
                g[k] = u[(long)line * rows + k * size + j] + E::get(bias, k * size + j);
            if (CELL == LSTM) {
                for (int k = 0; k < 4; k++) {
                    g[k] += E::get(q, (long)k * size);
                    g[k] = k == 2 ? recurrent_tanh(g[k]) : recurrent_sigmoid(g[k]);
                    E::put(keep, (long)k * size, g[k]);
                }
                c[at] = g[1] * c[at] + g[0] * g[2];
                E::put(keep, 4L * size, c[at]);
                state = g[3] * recurrent_tanh(c[at]);
            } else if (CELL == GRU) {
                T own = g[2];
                for (int k = 0; k < 2; k++)
                    g[k] = recurrent_sigmoid(g[k] + E::get(q, (long)k * size));
                g[2] = recurrent_tanh(E::get(q, 2L * size) + g[0] * own);
                for (int k = 0; k < 3; k++) E::put(keep, (long)k * size, g[k]);
                E::put(keep, 3L * size, own);
                state = (1 - g[1]) * g[2] + g[1] * h[at];
            } else {
                T all = g[0] + E::get(q, 0);
                state = CELL == RNN_TANH ? recurrent_tanh(all) : all < 0 ? (T)0 : all;
            }
            E::put(y, row * size + j, state);
            h[at] = E::get(y, row * size + j); /* as it is stored */
        }
        __syncthreads();
    }
    if (s.ends) recurrent_leave<E, LINES>(s, y, s.steps + 1, s.steps, c);
}

/* `memory`: LINES (2 + gates) size numbers. */
template <class E, int CELL, int LINES>
INLINE void recurrent_steps_back(const recurrence_shape &s, const typename E::memory *w,
                                 const typename E::memory *y, const typename E::memory *saved,
                                 const typename E::memory *dy, const typename E::memory *start,
                                 typename E::memory *dp, typename E::memory *dstart,
                                 typename E::number *memory) {
    typedef typename E::number T;
    int size = s.size, rows = s.gates * size;
    T *dc = memory, *z = dc + LINES * size, *du = z + LINES * size;
    long first = (long)blockIdx.x * LINES;
    recurrent_bring<E, LINES>(s, s.ends ? dy : nullptr, s.steps + 1, s.steps, dc);
    for (int i = kd_thread(); i < LINES * size; i += blockDim.x) z[i] = 0;
    for (int i = kd_thread(); i < LINES * rows; i += blockDim.x) du[i] = 0;
    __syncthreads();
    for (long i = s.steps - 1; i >= 0; i--) {
        for (int at = kd_thread(); at < LINES * size; at += blockDim.x) {
            int line = at / size, j = at % size;
            if (first + line >= s.batch) continue;
            long step = (first + line) * s.steps + (s.reverse ? s.steps - 1 - i : i);
            long before = s.reverse ? step + 1 : step - 1, gap = (first + line) * s.ends;
            const typename E::memory *keep = saved + step * s.saved * size + j;
            T g[5], d[4], dh = z[at] + E::get(dy, (step + gap) * size + j), last = 0;
            for (int k = 0; k < s.saved; k++) g[k] = E::get(keep, (long)k * size);
            if (CELL == LSTM) {
                if (i)
                    last = E::get(saved, before * s.saved * size + 4L * size + j);
                else if (start)
                    last = E::get(start, ((first + line) * 2 + 1) * size + j);
                T t = recurrent_tanh(g[4]), e = dc[at] + dh * g[3] * (1 - t * t);
                d[0] = e * g[2] * (g[0] * (1 - g[0]));
                d[1] = e * last * (g[1] * (1 - g[1]));
                d[2] = e * g[0] * (1 - g[2] * g[2]);
                d[3] = dh * t * (g[3] * (1 - g[3]));
                dc[at] = e * g[1];
            } else if (CELL == GRU) {
                if (i)
                    last = E::get(y, (before + gap) * size + j);
                else if (start)
                    last = E::get(start, (first + line) * size + j);
                d[2] = dh * (1 - g[1]) * (1 - g[2] * g[2]);
                d[1] = dh * (last - g[2]) * (g[1] * (1 - g[1]));
                d[0] = d[2] * g[3] * (g[0] * (1 - g[0]));
                dc[at] = dh * g[1]; /* of the state before, past the weight */
            } else {
                T out = E::get(y, (step + gap) * size + j);
                d[0] = CELL == RNN_TANH ? dh * (1 - out * out) : out > 0 ? dh : (T)0;
            }
            for (int k = 0; k < s.gates; k++) {
                E::put(dp, step * rows + (long)k * size + j, d[k]);
                du[(long)line * rows + k * size + j] = CELL == GRU && k == 2 ? d[k] * g[0] : d[k];
            }
        }
        __syncthreads();
        if (i || start) recurrent_products<LINES>(du, rows, w, size, z, E::get);
        __syncthreads();
        if (CELL == GRU && (i || start)) {
            for (int at = kd_thread(); at < LINES * size; at += blockDim.x) z[at] += dc[at];
            __syncthreads();
        }
    }
    if (start) {
        recurrent_leave<E, LINES>(s, dstart, s.states, 0, z);
        if (CELL == LSTM) recurrent_leave<E, LINES>(s, dstart, s.states, 1, dc);
    }
}
