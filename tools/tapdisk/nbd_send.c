/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies of one NBD client, in order, as many at once as the socket takes.
 * Knows their bytes and nothing of what they answer.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "tools/tapdisk/nbd_client.h"

enum { IOV_MAX_SENT = 2 * NBD_JOBS_MAX };

/* A simple reply with more data to come: nothing may be sent in between. */
static bool is_unfinished(const struct nbd_client *client,
			  const struct nbd_job *job)
{
	return !client->structured && !job->last;
}

void nbd_send(struct nbd_client *client, struct nbd_job *job)
{
	if (client->exclusive == job) {
		job->next = client->first;
		client->first = job;
		if (!job->next)
			client->last = &job->next;
	} else {
		job->next = NULL;
		*client->last = job;
		client->last = &job->next;
	}
	loop_defer(client->server->loop, &client->send);
}

static int gather(const struct nbd_client *client, struct iovec *iov)
{
	size_t skip = client->sent;
	int n = 0;

	for (struct nbd_job *job = client->first; job && n < IOV_MAX_SENT;
	     job = job->next) {
		if (skip < job->header_len)
			iov[n++] = (struct iovec){ job->header + skip,
						   job->header_len - skip };
		skip = skip < job->header_len ? 0 : skip - job->header_len;
		if (job->data_len)
			iov[n++] = (struct iovec){ nbd_job_data(job) + skip,
						   job->data_len - skip };
		skip = 0;
		if (is_unfinished(client, job))
			break;
	}
	return n;
}

/* @n bytes of what was gathered went out. */
static void went_out(struct nbd_client *client, size_t n)
{
	struct nbd_job *job;
	size_t rest;

	while (n && client->first) {
		job = client->first;
		rest = job->header_len + job->data_len - client->sent;
		if (n < rest) {
			client->sent += n;
			return;
		}
		n -= rest;
		client->sent = 0;
		client->first = job->next;
		if (!client->first)
			client->last = &client->first;
		client->exclusive = is_unfinished(client, job) ? job : NULL;
		nbd_job_sent(job);
		if (client->state == NBD_GONE)
			return;
	}
}

void nbd_send_replies(struct nbd_client *client)
{
	struct iovec iov[IOV_MAX_SENT];
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n;

	client->full = false;
	while (client->first &&
	       (!client->exclusive || client->exclusive == client->first)) {
		msg.msg_iovlen = (size_t)gather(client, iov);
		n = sendmsg(client->watch.fd, &msg,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			client->full = true;
			return;
		}
		if (n < 0) {
			nbd_client_drop(client);
			return;
		}
		went_out(client, (size_t)n);
		if (client->state == NBD_GONE)
			return;
	}
}
