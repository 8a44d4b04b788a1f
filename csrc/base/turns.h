/* How helpers share CPUs with other busy threads. One that loses its CPU in the middle of a piece of work
 * holds everybody up until the scheduler comes back to it; one that rests of its own accord before its slice
 * is over holds nothing. So beside competitors a helper works in short turns, and never on the CPU of another
 * member. For the team of threads and for what runs on it; knows nothing of the work. */
#ifndef PF_BASE_TURNS_H
#define PF_BASE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* A turn begins: after the thread was started or slept. Threads that never call this take no turns. */
void pf_turn_begin(void);

/* Where the calling thread is: a number of its CPU, at least 1. */
int32_t pf_turn_place(void);

/* Whether the calling thread, at a place, should rest before it takes on more work: because its turn is over,
 * or because this is one of the places where the others are. Cheap enough for every step. */
bool pf_turn_over(int32_t place, const int32_t *others, int count);

/* For a thread that calls the team, between its calls: when it is interrupted all the time although helpers
 * are meant to work elsewhere, no CPU is left for them, and those in short turns rest for long. */
void pf_turn_watch(void);

/* Sleeps for a moment, or moves away from the others; then a turn begins. */
void pf_turn_rest(void);

#endif
