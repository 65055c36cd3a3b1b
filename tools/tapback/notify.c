/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One datagram; a library for it would be larger than tapback.
 */
#include "tools/tapback/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int notify_service(const char *state)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *name = getenv("NOTIFY_SOCKET");
	size_t len;
	int fd, err = 0;

	if (!name || !*name)
		return 0;
	len = strlen(name);
	if (len >= sizeof(to.sun_path) || (*name != '/' && *name != '@'))
		return -EINVAL;
	memcpy(to.sun_path, name, len);
	if (*name == '@')
		to.sun_path[0] = '\0'; /* an abstract name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL,
		   (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) <
	    0)
		err = -errno;
	close(fd);
	return err;
}
