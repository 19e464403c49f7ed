/* Elements of kernels that take them one at a time: how they lie in memory, and the numbers in
 * which they are computed. */
template <class T> struct plain_elements {
    typedef T memory, number;
    static INLINE T get(const T *p, long i) { return p[i]; }
    static INLINE void put(T *p, long i, T v) { p[i] = v; }
};
#define HALF_ELEMENTS(T)                                                                           \
    struct T##_elements {                                                                          \
        typedef T memory;                                                                          \
        typedef float number;                                                                      \
        static INLINE float get(const T *p, long i) { return s_widen_##T(p[i]); }                  \
        static INLINE void put(T *p, long i, float v) { p[i] = s_narrow_##T(v); }                  \
    };
HALF_ELEMENTS(f16)
HALF_ELEMENTS(bf16)
#undef HALF_ELEMENTS
