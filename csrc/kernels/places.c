/* Places of extremes along an axis, and running extremes with their places, of many types. NaN comes before
 * all numbers: the first one in a line, the last one so far while it is walked along. */
#include "kernels/extremes.h"
#include "kernels/nest.h"

enum { LANES = 32, COLUMNS = 64 };

/* Extremes become vectors only as long as the loop over lanes is one. */
#define PF_ROLLED           _Pragma("GCC unroll 1")
#define PF_BEYOND(v, than)  (((least ? (v) < (than) : (v) > (than)) | ((v) != (v))) & ((than) == (than)))
#define PF_REACHES(v, than) (((least ? (v) <= (than) : (v) >= (than)) & ((than) == (than))) | ((v) != (v)))

/* The extreme first, then its place. The last vectors overlap those before them. */
PF_INLINE int64_t first_of_floats(const pf_float_any *x, int64_t n, int least) {
    enum { EACH = 4 };
    pf_vf best[EACH];
    int64_t i = EACH * PF_VL;
    if (n < PF_VL) {
        int64_t at = 0;
        for (i = 1; i < n; i++) at = PF_BEYOND(x[i], x[at]) ? i : at;
        return at;
    }
    for (int k = 0; k < EACH; k++) best[k] = pf_load(x + pf_min(k * PF_VL, n - PF_VL));
#define PF_FARTHER(a, v) (least ? pf_nanmin(a, v) : pf_nanmax(a, v))
    for (; i + EACH * PF_VL <= n; i += EACH * PF_VL) PF_UNROLL
    for (int k = 0; k < EACH; k++) best[k] = PF_FARTHER(best[k], pf_load(x + i + k * PF_VL));
    for (; i < n; i += PF_VL) best[0] = PF_FARTHER(best[0], pf_load(x + pf_min(i, n - PF_VL)));
    best[0] = PF_FARTHER(PF_FARTHER(best[0], best[1]), PF_FARTHER(best[2], best[3]));
#undef PF_FARTHER
    const float top = least ? pf_hmin(best[0]) : pf_hmax(best[0]);
    for (i = 0;; i += PF_VL) {
        const int64_t at = pf_min(i, n - PF_VL);
        const pf_vf v = pf_load(x + at);
        const uint32_t found = pf_bits(top == top ? v == top : v != v);
        if (found) return at + __builtin_ctz(found);
    }
}

#define PF_T            f32
#define PF_V            float
#define PF_P            int32_t
#define PF_FIRST_IN_ROW first_of_floats
#include "kernels/places_typed.h"

#define PF_T f64
#define PF_V double
#define PF_P int64_t
#include "kernels/places_typed.h"

#define PF_T i64
#define PF_V int64_t
#define PF_P int64_t
#include "kernels/places_typed.h"

#define PF_T i32
#define PF_V int32_t
#define PF_P int32_t
#include "kernels/places_typed.h"

#define PF_T u8
#define PF_V uint8_t
#define PF_P int32_t
#include "kernels/places_typed.h"
