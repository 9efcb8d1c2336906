/* Makes a file system look like one that gives no shared memory (UNFIT=memory) or no locks
 * (UNFIT=locks), for the files whose name holds the text in UNFIT_NAME. Preloaded by the check. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int chosen(int fd, const char *what, const char *suffix) {
    const char *unfit = getenv("UNFIT"), *name = getenv("UNFIT_NAME");
    char link[64], path[4096];
    ssize_t length;
    if (!unfit || !name || strcmp(unfit, what))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, name) && strstr(path, suffix);
}

static void *map(const char *real, void *at, size_t n, int prot, int flags, int fd, off64_t from) {
    void *(*next)(void *, size_t, int, int, int, off64_t) = dlsym(RTLD_NEXT, real);
    if (fd >= 0 && (flags & MAP_SHARED) && chosen(fd, "memory", "")) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    return next(at, n, prot, flags, fd, from);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t from) {
    return map("mmap", at, n, prot, flags, fd, from);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t from) {
    return map("mmap64", at, n, prot, flags, fd, from);
}

static int control(const char *real, int fd, int command, void *argument) {
    int (*next)(int, int, ...) = dlsym(RTLD_NEXT, real);
    int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK;
    if (locks && chosen(fd, "locks", "")) {
        errno = ENOLCK;
        return -1;
    }
    return next(fd, command, argument);
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control("fcntl64", fd, command, argument);
}
