/* SPDX-License-Identifier: BSD-3-Clause */
/* Why PMIx_Init may have failed. PMIx itself says little, so this lists what the process can see:
 * the server's names, its directory, the security component that is asked for, both versions; the
 * likely cause first. */
#include "config.h"
#include "pmix/pmix_call.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmix/text.h"

static const char *setting(const char *name)
{
    const char *value = getenv(name); /* the launcher's, not an option of ours */
    return value ? value : "";
}

void px_pmix_server_version(char *version, size_t size)
{
    const char *told = setting("PMIX_VERSION");
    snprintf(version, size, "%s%s", *told ? "PMIx " : "", told);
}

static void check_directory(struct px_text *text)
{
    const char *directory = setting("PMIX_SERVER_TMPDIR");
    if (!*directory)
        return;
    if (access(directory, F_OK) != 0)
        px_text_add(
            text,
            "; its directory %s (PMIX_SERVER_TMPDIR) is not visible here (%s): in a container, "
            "mount it at the same path",
            directory, strerror(errno));
    else if (access(directory, R_OK | W_OK | X_OK) != 0)
        px_text_add(text, "; its directory %s (PMIX_SERVER_TMPDIR) cannot be used (%s)", directory,
                    strerror(errno));
    else
        px_text_add(text, "; its directory %s is there", directory);
}

static void check_security(struct px_text *text)
{
    const char *wanted = setting("PMIX_MCA_psec"), *offered = setting("PMIX_SECURITY_MODE");
    if (*wanted && strcmp(wanted, offered) != 0)
        px_text_add(
            text,
            "; security component \"%s\" is asked for (PMIX_MCA_psec), the server offers \"%s\": "
            "unset PMIX_MCA_psec, or set it to native",
            wanted, offered);
    else if (strstr(offered, "munge"))
        px_text_add(
            text,
            "; the server asks for security component \"%s\": in a container without munge set "
            "PMIX_MCA_psec=native",
            offered);
}

/* 0, or errno of a connection to "...tcp4://ADDRESS:PORT"; -1 for what is not such an address. */
static int try_port(const char *uri)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char address[INET_ADDRSTRLEN];
    unsigned port;
    const char *tcp = strstr(uri, "tcp4://");
    if (!tcp || sscanf(tcp, "tcp4://%15[0-9.]:%u", address, &port) != 2 || port > 65535 ||
        inet_pton(AF_INET, address, &to.sin_addr) != 1)
        return -1;
    to.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int result = connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : errno;
    if (result == EINPROGRESS) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof(result);
        if (poll(&wait, 1, 1000) != 1)
            result = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size) != 0)
            result = -1;
    }
    close(fd);
    return result;
}

static void check_port(struct px_text *text, const char *uri)
{
    int result = try_port(uri);
    if (result > 0)
        px_text_add(text,
                    ", which cannot be reached from here (%s): in a container, share the host's "
                    "network; else its server has ended",
                    strerror(result));
}

static const char *server_uri(void)
{
    static const char *const names[] = {"PMIX_SERVER_URI4", "PMIX_SERVER_URI41", "PMIX_SERVER_URI3",
                                        "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (*setting(names[i]))
            return setting(names[i]);
    return "";
}

px_status px_pmix_explain_init(pmix_status_t code, struct px_error *error)
{
    struct px_text text = {.used = 0};
    const char *uri = server_uri();
    if (*uri) {
        px_text_add(&text, "the server of %s is at %s", setting("PMIX_NAMESPACE"), uri);
        check_port(&text, uri);
    } else {
        px_text_add(
            &text,
            "PMIX_NAMESPACE is \"%s\" but no PMIX_SERVER_URI* names a server: the launcher's "
            "variables do not all reach this process",
            setting("PMIX_NAMESPACE"));
    }
    check_directory(&text);
    check_security(&text);
    px_status status = px_pmix_status(code, "PMIx_Init", error);
    return px_error_set(error, status, "PMIx_Init: %s (%d); %s", PMIx_Error_string(code), (int)code,
                        text.bytes);
}
