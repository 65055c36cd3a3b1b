/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests as bytes.  Every byte that has no meaning is zero, so that two equal
 * requests look equal in a trace.
 */
#include "tools/ctl/client_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <json-c/json.h>

void client_request_init(struct client_request *request, uint16_t type,
			 uint16_t minor)
{
	memset(request, 0, sizeof(*request));
	request->message.type = type;
	request->message.cookie = minor;
}

void client_request_fini(struct client_request *request)
{
	free(request->extra);
	request->extra = NULL;
	request->extra_size = 0;
}

/* A name that is cut short is the name of another file: never do that. */
static int put_name(char out[WIRE_PATH_MAX], const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (len >= WIRE_PATH_MAX)
		return -ENAMETOOLONG;
	if (len)
		memcpy(out, name, len);
	return 0;
}

/* The log's path in 256 bytes, then the key behind its length. */
static int put_extra(struct client_request *request,
		     const struct client_request_image *image)
{
	size_t log_size = image->log ? WIRE_LOG_PATH_SIZE : 0;
	size_t key_size = image->key_size ? 1 + image->key_size : 0;

	if (image->key_size > CLIENT_REQUEST_KEY_MAX)
		return -EINVAL;
	if (image->log && strlen(image->log) >= WIRE_LOG_PATH_SIZE)
		return -ENAMETOOLONG;
	if (log_size + key_size == 0)
		return 0;
	request->extra = calloc(1, log_size + key_size);
	if (!request->extra)
		return -ENOMEM;
	request->extra_size = log_size + key_size;
	if (log_size)
		memcpy(request->extra, image->log, strlen(image->log) + 1);
	if (key_size) {
		request->extra[log_size] = (unsigned char)image->key_size;
		memcpy(request->extra + log_size + 1, image->key,
		       image->key_size);
	}
	return 0;
}

static int put_image(struct client_request *request,
		     const struct client_request_image *image)
{
	struct wire_params *params = &request->message.u.params;

	if (put_name(params->path, image->spec) < 0 ||
	    put_name(params->secondary, image->secondary) < 0)
		return -ENAMETOOLONG;
	params->flags = image->flags;
	if (image->secondary)
		params->flags |= WIRE_SECONDARY;
	if (image->log)
		params->flags |= WIRE_ADD_LOG;
	return put_extra(request, image);
}

int client_request_open(struct client_request *request, uint16_t minor,
			const struct client_request_image *image)
{
	struct wire_params *params = &request->message.u.params;
	int err;

	client_request_init(request, WIRE_OPEN, minor);
	err = put_image(request, image);
	if (err < 0)
		return err;
	params->devnum = minor;
	params->req_timeout = image->timeout_s;
	params->prt_devnum = (uint32_t)image->parent_minor;
	if (image->parent_minor != CLIENT_REQUEST_NO_MINOR)
		params->flags |= WIRE_REUSE_PRT;
	if (image->key_size)
		params->flags |= WIRE_OPEN_ENCRYPTED;
	return 0;
}

int client_request_resume(struct client_request *request, uint16_t minor,
			  const struct client_request_image *image)
{
	struct client_request_image resumed = {
		.spec = image->spec,
		.secondary = image->secondary,
		.log = image->log,
	};

	client_request_init(request, WIRE_RESUME, minor);
	return put_image(request, &resumed);
}

void client_request_disconnect(struct client_request *request, uint16_t minor,
			       uint32_t domid, uint32_t devid)
{
	client_request_init(request, WIRE_XENBLKIF_DISCONNECT, minor);
	request->message.u.blkif.domid = domid;
	request->message.u.blkif.devid = devid;
}

int client_request_json(struct client_request *request, uint16_t type,
			uint16_t minor, struct json_object *json)
{
	const char *text;
	size_t len;

	client_request_init(request, type, minor);
	text = json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN);
	if (!text)
		return -ENOMEM;
	len = strlen(text);
	if (len > WIRE_JSON_MAX)
		return -EMSGSIZE;
	request->extra = malloc(len);
	if (!request->extra)
		return -ENOMEM;
	memcpy(request->extra, text, len);
	request->extra_size = len;
	request->message.u.info.length = len;
	return 0;
}
