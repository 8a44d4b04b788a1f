/* The k largest or smallest elements of each line, one of a given rank, or the median, with their places.
 * Which of equal elements are found, and in which order, follows from the algorithms: they are those that
 * PyTorch takes from the C++ library (heap selection, Musser's introselect and introsort, 1997), for a given
 * rank Sedgewick's quickselect with three samples, and for the median a stable order. */
#include "kernels/order.h"
#include "kernels/sort_lanes.h"
#include "kernels/topk_lanes.h"

enum { SHORT = 16, FEW = 64, HEAPED = 64, SCARCE = 16, GROUP = 8, SEEN = 64 };

static inline void swap(entry *x, entry *y) {
    const entry t = *x;
    *x = *y;
    *y = t;
}

static inline int64_t log2_of(int64_t n) { return 63 - __builtin_clzll((uint64_t)n); }

/* -- heaps with the last entry in front ------------------------------------------------------------------ */

/* An entry into the heap of n whose place `hole` is free: the hole sinks to the bottom, the entry rises. */
static void heap_put(entry *e, int64_t hole, int64_t n, entry moved) {
    const int64_t top = hole;
    int64_t next;
    for (; (next = 2 * hole + 2) < n; hole = next) {
        if (e[next].key < e[next - 1].key) next--;
        e[hole] = e[next];
    }
    if (next == n) {
        e[hole] = e[n - 1];
        hole = n - 1;
    }
    for (; hole > top && e[next = (hole - 1) / 2].key < moved.key; hole = next) e[hole] = e[next];
    e[hole] = moved;
}

static void heap_make(entry *e, int64_t n) {
    for (int64_t i = n / 2; i-- > 0;) heap_put(e, i, n, e[i]);
}

static void heap_sort(entry *e, int64_t n) {
    for (int64_t i = n; i-- > 1;) {
        const entry moved = e[i];
        e[i] = e[0];
        heap_put(e, 0, i, moved);
    }
}

/* The first k of n entries become a heap of those that come first. */
static void heap_select(entry *e, int64_t n, int64_t k) {
    heap_make(e, k);
    for (int64_t i = k; i < n; i++) {
        if (e[i].key >= e[0].key) continue;
        const entry moved = e[i];
        e[i] = e[0];
        heap_put(e, 0, k, moved);
    }
}

/* -- partitions ------------------------------------------------------------------------------------------ */

/* Start of the part whose entries do not come before the median of the second, the middle and the last one;
 * that goes to the front, and bounds both walks. */
static int64_t partition(entry *e, int64_t n) {
    entry *a = &e[1], *m = &e[n / 2], *z = &e[n - 1], *median;
    if (a->key < m->key)
        median = m->key < z->key ? m : a->key < z->key ? z : a;
    else
        median = a->key < z->key ? a : m->key < z->key ? z : m;
    swap(e, median);
    const int64_t pivot = e[0].key;
    for (int64_t first = 1, last = n;; swap(&e[first++], &e[last])) {
        while (e[first].key < pivot) first++;
        last--;
        while (pivot < e[last].key) last--;
        if (first >= last) return first;
    }
}

/* The entry of rank k goes to its place, what comes before it in front of it. */
static void select_rank(entry *e, int64_t n, int64_t k) {
    int64_t first = 0, last = n;
    for (int64_t patience = 2 * log2_of(n); last - first > 3; patience--) {
        if (patience == 0) {
            heap_select(e + first, last - first, k + 1 - first);
            swap(&e[first], &e[k]);
            return;
        }
        const int64_t cut = first + partition(e + first, last - first);
        if (cut <= k)
            first = cut;
        else
            last = cut;
    }
    pf_insertion_sort(e + first, last - first);
}

static void sort_parts(entry *e, int64_t n, int64_t patience) {
    for (; n > SHORT; patience--) {
        if (patience == 0) {
            heap_make(e, n);
            heap_sort(e, n);
            return;
        }
        const int64_t cut = partition(e, n);
        sort_parts(e + cut, n - cut, patience - 1);
        n = cut;
    }
}

static void sort(entry *e, int64_t n) {
    if (n > 1) sort_parts(e, n, 2 * log2_of(n));
    pf_insertion_sort(e, n);
}

/* The entry of rank k, from among the others by walks that three samples bound. */
static entry quickselect(entry *e, int64_t n, int64_t k) {
    int64_t first = 0, last = n - 1;
    for (int64_t patience = 4 * log2_of(n); last > first + 1; patience--) {
        if (patience == 0) {
            heap_select(e + first, last + 1 - first, k + 1 - first);
            return e[first];
        }
        entry *a = &e[first], *b = &e[first + 1], *z = &e[last];
        swap(&e[(first + last) / 2], b);
        if (b->key > z->key) swap(b, z);
        if (a->key > z->key) swap(a, z);
        if (b->key > a->key) swap(b, a);
        int64_t i = first + 1, j = last;
        for (const int64_t pivot = a->key;; swap(&e[i], &e[j])) {
            do i++;
            while (pivot > e[i].key);
            do j--;
            while (e[j].key > pivot);
            if (j < i) break;
        }
        swap(a, &e[j]);
        if (j <= k) first = i;
        if (j >= k) last = j - 1;
    }
    if (last == first + 1 && e[first].key > e[last].key) swap(&e[first], &e[last]);
    return e[k];
}

/* -- lines ----------------------------------------------------------------------------------------------- */

/* Whether none of m floats comes before another one, which holds for most pieces of a line: so these need no
 * keys. */
static bool none_before(const pf_float_any *x, int64_t m, float other, bool largest) {
    const pf_vf bound = pf_set(other);
    pf_vi behind = pf_seti(-1);
    if (m % PF_VL) return false;
    for (int64_t i = 0; i < m; i += PF_VL) {
        const pf_vf v = pf_load(x + i);
        behind &= largest ? (pf_vi)(v <= bound) : (pf_vi)(v >= bound);
    }
    return !pf_any(~behind);
}

/* The k that come first, sorted: each one that comes before the last of them so far takes its place. */
static void select_few(entry *e, const elements *x, int64_t n, int64_t k) {
    int64_t keys[KEYS];
    pf_entries(e, x, k);
    heap_make(e, k);
    const pf_float_any *floats = x->type == PF_DTYPE_F32 && x->step == 1 ? (const void *)x->at : NULL;
    const int64_t piece = floats ? SEEN : KEYS;
    for (int64_t i = k; i < n; i += piece) {
        const int64_t m = pf_min(piece, n - i);
        if (floats && none_before(floats + i, m, floats[e[0].index], x->flip)) continue;
        pf_keys(keys, x, i, m);
        for (int64_t j = m; j % GROUP; j++) keys[j] = INT64_MAX;
        for (int64_t j = 0; j < m; j += GROUP) {
            const int64_t worst = e[0].key;
            int64_t better = 0;
            for (int64_t g = 0; g < GROUP; g++) better |= -(int64_t)(keys[j + g] < worst);
            if (!better) continue;
            for (int64_t g = j; g < j + GROUP; g++)
                if (keys[g] < e[0].key) heap_put(e, 0, k, (entry){keys[g], i + g});
        }
    }
    heap_sort(e, k);
}

/* Whether the k selected ones could be no others, nor in another order. */
static bool unique(const entry *e, const elements *x, int64_t n, int64_t k) {
    int64_t keys[KEYS], equal = 0;
    for (int64_t i = 1; i < k; i++)
        if (e[i - 1].key == e[i].key) return false;
    for (int64_t i = 0; i < n; i += KEYS) {
        const int64_t m = pf_min(KEYS, n - i);
        pf_keys(keys, x, i, m);
        for (int64_t j = 0; j < m; j++) equal += keys[j] == e[k - 1].key;
    }
    return equal == 1;
}

/* PyTorch keeps few of many in a heap, and sorts them in any case. */
static void select_best(entry *e, const elements *x, const pf_topk_args *a) {
    const int64_t n = a->n, k = a->k;
    if (k * HEAPED <= n || (a->sorted && k <= FEW && k * SCARCE <= n)) {
        select_few(e, x, n, k);
        if (k * HEAPED <= n || unique(e, x, n, k)) return;
    }
    pf_entries(e, x, n);
    select_rank(e, n, k - 1);
    if (a->sorted) sort(e, k - 1);
}

/* The entry with a key that as many equal ones as `skip` come before in the line. */
static entry equal_after(const elements *x, int64_t n, int64_t key, int64_t skip) {
    int64_t keys[KEYS];
    for (int64_t i = 0; i < n; i += KEYS) {
        const int64_t m = pf_min(KEYS, n - i);
        pf_keys(keys, x, i, m);
        for (int64_t j = 0; j < m; j++)
            if (keys[j] == key && skip-- == 0) return (entry){key, i + j};
    }
    return (entry){key, 0};
}

/* Rank of the lower median among n elements, the last `count` of which are NaN. */
static int64_t median_rank(int64_t n, int64_t count) { return (n - count - 1) / 2; }

/* The lower median, of equal ones that of a stable sort; of all elements the first NaN, if there is one.
 * Where there are no numbers, PyTorch leaves the order of NaN to the selection. */
static entry select_median(entry *e, const elements *x, int64_t n, bool of_numbers) {
    static const int64_t missing[PF_DTYPE_COUNT] = {
        [PF_DTYPE_F16] = INT16_MAX, [PF_DTYPE_F32] = INT32_MAX, [PF_DTYPE_F64] = INT64_MAX};
    const int64_t nan = missing[x->type];
    int64_t count = 0, before = 0;
    for (int64_t i = 0; nan && i < n; i++) count += e[i].key == nan;
    if (count && !of_numbers) return equal_after(x, n, nan, 0);
    const int64_t rank = count == n ? 0 : median_rank(n, count);
    select_rank(e, n, rank);
    const int64_t key = e[rank].key;
    if (count == n) return e[0];
    for (int64_t i = 0; i < rank; i++) before += e[i].key < key;
    return equal_after(x, n, key, rank - before);
}

/* Place of the median in a sorted lane of n, -1 where there is nothing but NaN and numbers are wanted. */
static int64_t median_place(const int64_t *lane, int64_t n, bool of_numbers) {
    int64_t count = 0;
    while (count < n && lane[(n - 1 - count) * LANE_LINES] >> PLACE_BITS == INT32_MAX) count++;
    if (count == n && of_numbers) return -1;
    const int64_t rank = count && !of_numbers ? n - count : median_rank(n, count);
    return lane[rank * LANE_LINES] & UINT32_MAX;
}

/* A heap is all that few of many take. */
static inline int64_t room_of(const pf_topk_args *a) { return a->k * HEAPED <= a->n ? a->k : a->n; }

PF_PLAN_FUNCTION(topk) {
    const pf_topk_args *a = args_;
    plan->scratch_bytes = pf_lines_scratch(a, nthreads, room_of(a));
}

static void select_line(entry *e, const pf_topk_args *a, const pf_worker *w, int64_t line) {
    const elements x = pf_line(a, w, line);
    select_best(e, &x, a);
    pf_put_line(e, &x, a, w, line, a->k);
}

/* Whether few are wanted of each of PF_VL lines. */
static bool fit_lanes(const pf_topk_args *a, int64_t line, int64_t end) {
    const bool ordered = a->sorted || a->k * HEAPED <= a->n;
    return ordered && a->variant == PF_DTYPE_F32 && a->k <= LANE_MOST && a->n <= INT32_MAX &&
           pf_lines_fit(a, line, end);
}

/* Elements and places of PF_VL lines from the first one on. */
static void put_lanes(const best *b, const pf_topk_args *a, const pf_worker *w, int64_t first) {
    const bool rows = a->inner == 1;
    const int64_t k = a->k, step = a->inner, from = rows ? a->n : 1, apart = rows ? k : 1;
    const int64_t at = first / step * k * step + first % step;
    const float *x = (const float *)pf_line(a, w, first).at;
    float *values = pf_ptr(w, a->values);
    int64_t *indices = pf_ptr(w, a->indices);
    for (int64_t j = 0; j < k; j++) {
        /* Elements lie where they were read, which the caches no longer hold. */
        const pf_vf v = lane_values(b->key[j], a->largest ? -1 : 0);
        const bool known = !pf_any(v != v);
        for (int64_t i = 0; i < PF_VL; i++) {
            const int64_t place = b->place[j][i], to = at + i * apart + j * step;
            if (values) values[to] = known ? v[i] : x[i * from + place * step];
            if (indices) indices[to] = place;
        }
    }
}

static void select_together(entry *e, const pf_topk_args *a, const pf_worker *w, int64_t first) {
    best b;
    const float *x = (const float *)pf_line(a, w, first).at;
    const pf_vi open = select_lanes(&b, x, a->n, a->inner, a->k, a->largest ? -1 : 0);
    put_lanes(&b, a, w, first);
    for (int i = 0; i < PF_VL; i++)
        if (open[i]) select_line(e, a, w, first + i);
}

PF_KERNEL_FUNCTION(topk) {
    const pf_topk_args *a = args_;
    const lines mine = pf_lines(a, w, room_of(a));
    for (int64_t line = mine.begin; a->k > 0 && line < mine.end;) {
        if (fit_lanes(a, line, mine.end)) {
            select_together(mine.e, a, w, line);
            line += PF_VL;
        } else {
            select_line(mine.e, a, w, line++);
        }
    }
}

PF_PLAN_FUNCTION(kthvalue) {
    const pf_topk_args *a = args_;
    plan->scratch_bytes = pf_lines_scratch(a, nthreads, a->n);
}

/* The k-th smallest one, counted from 1. */
PF_KERNEL_FUNCTION(kthvalue) {
    const pf_topk_args *a = args_;
    const lines mine = pf_lines(a, w, a->n);
    for (int64_t line = mine.begin; line < mine.end; line++) {
        const elements x = pf_line(a, w, line);
        pf_entries(mine.e, &x, a->n);
        const entry found = quickselect(mine.e, a->n, a->k - 1);
        pf_put_line(&found, &x, a, w, line, 1);
    }
}

static void put_median(entry *e, const pf_topk_args *a, const pf_worker *w, int64_t line, bool of_numbers) {
    const elements x = pf_line(a, w, line);
    pf_entries(e, &x, a->n);
    const entry found = select_median(e, &x, a->n, of_numbers);
    pf_put_line(&found, &x, a, w, line, 1);
}

/* Those of PF_VL lines. */
static void put_medians(entry *e, const pf_topk_args *a, const pf_worker *w, int64_t first, bool of_numbers) {
    placed *lanes = (placed *)e;
    int64_t places[PF_VL];
    sort_together(lanes, (const float *)pf_line(a, w, first).at, a->n, a->inner, 0);
    for (int64_t i = 0; i < PF_VL; i++) {
        const placed *half = lanes + i / LANE_LINES * a->n;
        places[i] = median_place((const int64_t *)half + i % LANE_LINES, a->n, of_numbers);
    }
    for (int64_t i = 0; i < PF_VL; i++) {
        const elements x = pf_line(a, w, first + i);
        if (places[i] < 0)
            put_median(e, a, w, first + i, of_numbers);
        else
            pf_put_line(&(entry){0, places[i]}, &x, a, w, first + i, 1);
    }
}

static int64_t median_room(const pf_topk_args *a) { return (lanes_fit(a) ? LANE_LINES : 1) * a->n; }

static void find_medians(const pf_topk_args *a, const pf_worker *w, bool of_numbers) {
    const lines mine = pf_lines(a, w, median_room(a));
    for (int64_t line = mine.begin; line < mine.end;) {
        if (lanes_fit_from(a, line, mine.end)) {
            put_medians(mine.e, a, w, line, of_numbers);
            line += PF_VL;
        } else {
            put_median(mine.e, a, w, line++, of_numbers);
        }
    }
}

PF_PLAN_FUNCTION(median) {
    const pf_topk_args *a = args_;
    plan->scratch_bytes = pf_lines_scratch(a, nthreads, median_room(a));
}

PF_PLAN_FUNCTION(nanmedian) { PF_NAME(median_plan)(args_, nthreads, plan); }

PF_KERNEL_FUNCTION(median) { find_medians(args_, w, false); }

PF_KERNEL_FUNCTION(nanmedian) { find_medians(args_, w, true); }
