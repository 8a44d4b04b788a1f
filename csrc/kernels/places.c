/* Places of extremes along an axis, and running extremes with their places, of many types. NaN comes before
 * all numbers: the first one in a line, the last one so far while it is walked along. */
#include "kernels/nest.h"
#include "kernels/simd.h"

enum { LANES = 32, COLUMNS = 64 };

/* Extremes become vectors only as long as the loop over lanes is one. */
#define PF_ROLLED           _Pragma("GCC unroll 1")
#define PF_BEYOND(v, than)  (((least ? (v) < (than) : (v) > (than)) | ((v) != (v))) & ((than) == (than)))
#define PF_REACHES(v, than) (((least ? (v) <= (than) : (v) >= (than)) & ((than) == (than))) | ((v) != (v)))

#define PF_T f32
#define PF_V float
#define PF_P int32_t
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
