/* The functions of ops.def on one value at a time, for every target. This text stands in front
 * of the target's prelude, which instantiates it for its types, and defines INLINE and the names
 * `m` of library functions. */
#define COMPARISONS(T, p)                                                                          \
    INLINE T p##select(int c, T a, T b) { return c ? a : b; }                                      \
    INLINE int p##eq(T a, T b) { return a == b; }                                                  \
    INLINE int p##ne(T a, T b) { return a != b; }                                                  \
    INLINE int p##lt(T a, T b) { return a < b; }                                                   \
    INLINE int p##le(T a, T b) { return a <= b; }                                                  \
    INLINE int p##gt(T a, T b) { return a > b; }                                                   \
    INLINE int p##ge(T a, T b) { return a >= b; }
#define WHOLE_FUNCTIONS(T, p)                                                                      \
    COMPARISONS(T, p)                                                                              \
    INLINE T p##max(T a, T b) { return a > b ? a : b; }                                            \
    INLINE T p##min(T a, T b) { return a < b ? a : b; }                                            \
    INLINE T p##abs(T a) { return a < 0 ? -a : a; }                                                \
    INLINE T p##sign(T a) { return (a > 0) - (a < 0); }                                            \
    INLINE T p##floor(T a) { return a; }
#define SCALAR_FUNCTIONS(T, p, m)                                                                  \
    COMPARISONS(T, p)                                                                              \
    INLINE T p##max(T a, T b) { return a > b || a != a ? a : b; }                                  \
    INLINE T p##min(T a, T b) { return a < b || a != a ? a : b; }                                  \
    INLINE T p##abs(T a) { return m(fabs)(a); }                                                    \
    INLINE T p##sign(T a) { return (T)((a > 0) - (a < 0)); }                                       \
    INLINE T p##exp(T a) { return m(exp)(a); }                                                     \
    INLINE T p##log(T a) { return m(log)(a); }                                                     \
    INLINE T p##expm1(T a) { return m(expm1)(a); }                                                 \
    INLINE T p##log1p(T a) { return m(log1p)(a); }                                                 \
    INLINE T p##sqrt(T a) { return m(sqrt)(a); }                                                   \
    INLINE T p##tanh(T a) { return m(tanh)(a); }                                                   \
    INLINE T p##sigmoid(T a) { return 1 / (1 + m(exp)(-a)); }                                      \
    INLINE T p##sin(T a) { return m(sin)(a); }                                                     \
    INLINE T p##cos(T a) { return m(cos)(a); }                                                     \
    INLINE T p##erf(T a) { return m(erf)(a); }                                                     \
    INLINE T p##floor(T a) { return m(floor)(a); }                                                 \
    INLINE T p##pow(T a, T b) { return m(pow)(a, b); }                                             \
    INLINE T p##atan2(T a, T b) { return m(atan2)(a, b); }
