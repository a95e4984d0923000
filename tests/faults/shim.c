/* Counts the calls that change files below a folder, and lets one of them fail or kills the process at it.
 *
 * Loaded with LD_PRELOAD, so it sees what Python, NumPy and the engine do. It does nothing until faults_arm is called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static long fails_at, seen;
static int failure, trace = -1;

/* From now on, the call number `at` below `folder` fails with `error`; with 0 the process is killed before it. Each call
 * is written to the descriptor `log`, a line "call<TAB>path<TAB>other path", where that is not negative. */
void faults_arm(const char *folder, long at, int error, int log) {
    strncpy(root, folder, sizeof root - 1);
    fails_at = at, failure = error, trace = log, seen = 0;
}

static void absolute(int folder, const char *path, char *found) {
    char base[PATH_MAX] = "", link[64];
    if (path[0] != '/') {
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 2);
        if (length < 0) length = 0;
        base[length] = '/', base[length + 1] = 0;
    }
    snprintf(found, PATH_MAX, "%s%s", base, path);
}

static int is_below(const char *path) {
    size_t length = strlen(root);
    return length && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Whether the call is to fail; errno is set then. */
static int fails(const char *call, const char *path, const char *other) {
    if (!is_below(path)) return 0;
    int before = errno;
    long number = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
    if (trace >= 0) {
        char line[2 * PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%s\t%s\t%s\n", call, path, other);
        syscall(SYS_write, trace, line, (size_t)length);
    }
    errno = before;
    if (number != fails_at) return 0;
    if (failure == 0) syscall(SYS_kill, getpid(), SIGKILL);
    errno = failure;
    return 1;
}

static int fails_path(const char *call, int folder, const char *path) {
    char found[PATH_MAX];
    absolute(folder, path, found);
    return fails(call, found, "");
}

static int fails_paths(const char *call, int from, const char *old, int to, const char *new) {
    char first[PATH_MAX], second[PATH_MAX];
    absolute(from, old, first), absolute(to, new, second);
    return fails(call, first, second);
}

static int fails_descriptor(const char *call, int descriptor) {
    char link[64], found[PATH_MAX];
    if (!root[0]) return 0;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, found, sizeof found - 1);
    errno = before;
    if (length < 0) return 0;
    found[length] = 0;
    return fails(call, found, "");
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPEN(name, at) \
    int name(AT_PARAMETER const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        REAL(int, #name, AT_TYPE const char *, int, ...); \
        return flags & O_CREAT && fails_path("create", at, path) ? -1 : real(AT_ARGUMENT path, flags, mode); \
    }
#define AT_PARAMETER
#define AT_TYPE
#define AT_ARGUMENT
OPEN(open, AT_FDCWD)
OPEN(open64, AT_FDCWD)
#undef AT_PARAMETER
#undef AT_TYPE
#undef AT_ARGUMENT
#define AT_PARAMETER int at,
#define AT_TYPE int,
#define AT_ARGUMENT at,
OPEN(openat, at)
OPEN(openat64, at)

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return fails_descriptor("write", descriptor) ? -1 : real(descriptor, data, size);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return fails_descriptor("write", descriptor) ? -1 : real(descriptor, data, size, at);
}

ssize_t writev(int descriptor, const struct iovec *data, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return fails_descriptor("write", descriptor) ? -1 : real(descriptor, data, count);
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    REAL(size_t, "fwrite", const void *, size_t, size_t, FILE *);
    return fails_descriptor("write", fileno(file)) ? 0 : real(data, size, count, file);
}

int fsync(int descriptor) {
    REAL(int, "fsync", int);
    return fails_descriptor("sync", descriptor) ? -1 : real(descriptor);
}

int fdatasync(int descriptor) {
    REAL(int, "fdatasync", int);
    return fails_descriptor("sync", descriptor) ? -1 : real(descriptor);
}

int ftruncate64(int descriptor, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    return fails_descriptor("truncate", descriptor) ? -1 : real(descriptor, size);
}

int flock(int descriptor, int operation) {
    REAL(int, "flock", int, int);
    return fails_descriptor("lock", descriptor) ? -1 : real(descriptor, operation);
}

int close(int descriptor) {
    REAL(int, "close", int);
    int flags = root[0] ? fcntl(descriptor, F_GETFL) : -1;
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || !fails_descriptor("close", descriptor)) return real(descriptor);
    /* As the kernel does: the descriptor is gone, and the error is told. */
    real(descriptor);
    errno = failure;
    return -1;
}

int rename(const char *old, const char *new) {
    REAL(int, "rename", const char *, const char *);
    return fails_paths("rename", AT_FDCWD, old, AT_FDCWD, new) ? -1 : real(old, new);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
    return fails_paths("exchange", from, old, to, new) ? -1 : real(from, old, to, new, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return fails_path("mkdir", AT_FDCWD, path) ? -1 : real(path, mode);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    return fails_path("unlink", AT_FDCWD, path) ? -1 : real(path);
}

int unlinkat(int at, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    return fails_path("unlink", at, path) ? -1 : real(at, path, flags);
}

int rmdir(const char *path) {
    REAL(int, "rmdir", const char *);
    return fails_path("unlink", AT_FDCWD, path) ? -1 : real(path);
}

int link(const char *old, const char *new) {
    REAL(int, "link", const char *, const char *);
    return fails_paths("link", AT_FDCWD, old, AT_FDCWD, new) ? -1 : real(old, new);
}

int symlink(const char *content, const char *path) {
    REAL(int, "symlink", const char *, const char *);
    return fails_path("link", AT_FDCWD, path) ? -1 : real(content, path);
}
