/* 64 threads ask, cancel each other's streams and free everything in any order, for as many
 * seconds as STRATA_STRESS_SECONDS says.
 * No crash, no deadlock, and memory that stays flat.
 *
 * The context is short: the cache, whose pages take memory when they are first used, is full
 * within the first seconds, and what grows after that is lost. */
#define _POSIX_C_SOURCE 200809L
#include "strata.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 64
#define SHARED 64

static strata_model *model;
static strata_stream *shared[SHARED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int over;
static long asked, ended, canceled, failed;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;
    if (file) {
        if (fscanf(file, "%ld %ld", &size, &pages) != 2)
            pages = 0;
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int is_over(void) {
    pthread_mutex_lock(&lock);
    int ends = over;
    pthread_mutex_unlock(&lock);
    return ends;
}

static void count(long *what) {
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_mutex_unlock(&lock);
}

/* Puts a stream where all can reach it, and takes out what was there. */
static strata_stream *swap(unsigned place, strata_stream *stream) {
    pthread_mutex_lock(&lock);
    strata_stream *before = shared[place % SHARED];
    shared[place % SHARED] = stream;
    pthread_mutex_unlock(&lock);
    return before;
}

static strata_stream *peek(unsigned place) {
    pthread_mutex_lock(&lock);
    strata_stream *stream = shared[place % SHARED];
    pthread_mutex_unlock(&lock);
    return stream;
}

static void *work(void *number) {
    unsigned seed = (unsigned)(size_t)number * 7919u + 1u;
    while (!is_over()) {
        strata_model *own = strata_model_clone(model);
        char request[256];
        snprintf(request, sizeof request,
                 "{\"prompt\":\"Once upon a time %u\",\"max_tokens\":%d,\"stream\":%s,\"seed\":%u}", seed % 50,
                 1 + rand_r(&seed) % 24, rand_r(&seed) % 4 ? "true" : "false", seed);
        strata_stream *stream = rand_r(&seed) % 8 ? strata_complete(own, request)
                                                  : strata_embed(own, "{\"input\":\"a fox and an owl\"}");
        strata_model_free(own);
        if (!stream) {
            count(&failed);
            continue;
        }
        count(&asked);
        if (rand_r(&seed) % 3 == 0)
            strata_stream_fd(stream);
        /* Somebody else may cancel, read or free it from here on. */
        strata_stream *before = swap(rand_r(&seed), stream);
        for (int step = 0; step < 200; step++) {
            char *document = NULL;
            int status = strata_next(stream, rand_r(&seed) % 20, &document);
            strata_string_free(document);
            if (status == STRATA_END) {
                count(&ended);
                break;
            }
            if (status == STRATA_ERROR) {
                const char *code = strata_error_code();
                int known = code && (!strcmp(code, "canceled") || !strcmp(code, "invalid_argument") ||
                                     !strcmp(code, "overloaded"));
                count(known ? &canceled : &failed);
                if (!known)
                    fprintf(stderr, "%s\n", strata_error_message());
                break;
            }
            if (rand_r(&seed) % 16 == 0)
                strata_cancel(peek(rand_r(&seed)));
            if (rand_r(&seed) % 64 == 0)
                strata_stream_free(peek(rand_r(&seed)));
        }
        /* What was there before me is mine to free, perhaps a second time. */
        strata_stream_free(before);
    }
    return NULL;
}

int main(void) {
    const char *given = getenv("STRATA_STRESS_SECONDS");
    double seconds = given ? atof(given) : 3.0;
    model = strata_open("tale", "{\"context\":64,\"requests\":16}");
    if (!model) {
        fprintf(stderr, "%s\n", strata_error_message());
        return 1;
    }
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    double start = now();
    struct timespec third = {(time_t)(seconds / 3), (long)((seconds / 3 - (double)(long)(seconds / 3)) * 1e9)};
    nanosleep(&third, NULL);
    long early = resident();
    while (now() - start < seconds) {
        struct timespec moment = {0, 50000000};
        nanosleep(&moment, NULL);
    }
    long late = resident();
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_mutex_unlock(&lock);
    /* The model goes while its streams are under way. */
    strata_model_free(model);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < SHARED; i++)
        strata_stream_free(swap(i, NULL));
    fprintf(stderr, "%ld asked, %ld ended, %ld canceled, %ld failed; %ld kB, then %ld kB\n", asked, ended, canceled,
            failed, early, late);
#ifdef __SANITIZE_THREAD__
    /* ThreadSanitizer keeps what it has seen. */
    long most = LONG_MAX;
#else
    long most = early + (seconds < 10 ? 32768 : 8192);
#endif
    if (failed > 0 || ended == 0 || canceled == 0 || late > most)
        return 1;
    puts("feature stress");
    return 0;
}
