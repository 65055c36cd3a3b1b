/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The disk for NBD clients, on the main thread.
 *
 *   nbdP.M            a socket to connect to
 *   nbd-oldP.M        the same; the name is from older days
 *   nbdserverP.M      takes connected sockets, and greets them in old style
 *   nbdserver-newP.M  the same in new style
 *
 * with P our pid and M the minor, under host_run_dir().  Nothing here waits: a
 * client that is slow, silent or talks nonsense costs memory within bounds and
 * is in nobody's way.  Logs refusals, rate-limited.
 */
#pragma once

struct loop;
struct vbd;

/*
 * Serve @vbd, which is open.  The server is its user (vbd_set_user), and closes
 * itself when that ends.  -ENOMEM, -ENAMETOOLONG, -errno; logged.
 */
int nbd_server_open(struct loop *loop, struct vbd *vbd);
