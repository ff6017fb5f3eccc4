/*
 * The messages to a watcher, which wait until its socket takes them. They are in memory that a
 * forked child does not inherit: memory from malloc would be lost there.
 */
#include "socket.h"

#include <sys/mman.h>
#include <sys/socket.h>

enum { PAGE = 4096 };

/* reserve_room makes room for a number of bytes, and reports false if there is no memory. */
static bool reserve_room(struct sdt_outbox *outbox, size_t size)
{
	size_t need, capacity = outbox->capacity ? outbox->capacity : PAGE;
	void *data;

	if (outbox->failed || __builtin_add_overflow(outbox->size, size, &need) || need > SIZE_MAX / 2)
		return false;
	while (capacity < need)
		capacity *= 2;
	if (capacity == outbox->capacity)
		return true;
	data = outbox->data ? mremap(outbox->data, outbox->capacity, capacity, MREMAP_MAYMOVE)
			    : mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		return false;
	(void)madvise(data, capacity, MADV_DONTFORK);
	outbox->data = data;
	outbox->capacity = capacity;
	return true;
}

void sdt_outbox_free(struct sdt_outbox *outbox)
{
	if (outbox->data)
		munmap(outbox->data, outbox->capacity);
	*outbox = (struct sdt_outbox){.fd = outbox->fd};
}

void sdt_outbox_add(struct sdt_outbox *outbox, uint32_t kind, const void *body, size_t size)
{
	unsigned char head[8];

	sdt_put_u32(head, size);
	sdt_put_u32(head + 4, kind);
	if (!reserve_room(outbox, sizeof head + size)) {
		outbox->failed = true;
		return;
	}
	memcpy(outbox->data + outbox->size, head, sizeof head);
	if (size > 0)
		memcpy(outbox->data + outbox->size + sizeof head, body, size);
	outbox->size += sizeof head + size;
}

/* sdt_outbox_fail adds the reason why a request has failed. */
void sdt_outbox_fail(struct sdt_outbox *outbox, uint32_t code, const char *text)
{
	unsigned char body[256];
	size_t length = strnlen(text, sizeof body - 4);

	sdt_put_u32(body, code);
	memcpy(body + 4, text, length);
	sdt_outbox_add(outbox, SDT_WIRE_ERROR, body, 4 + length);
}

/* part_of_outbox returns the part that can be sent at once: a descriptor is sent with its byte. */
static size_t part_of_outbox(const struct sdt_outbox *outbox)
{
	if (outbox->fd >= 0 && outbox->sent < outbox->fd_at)
		return outbox->fd_at - outbox->sent;
	return outbox->size - outbox->sent;
}

/*
 * sdt_outbox_send sends as much as the socket accepts, and reports false if that fails.
 */
bool sdt_outbox_send(struct sdt_outbox *outbox, int connection)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];

	if (outbox->failed)
		return false;
	while (outbox->sent < outbox->size) {
		struct iovec part = {outbox->data + outbox->sent, part_of_outbox(outbox)};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
		bool with_fd = outbox->fd >= 0 && outbox->sent == outbox->fd_at;
		ssize_t sent;

		if (with_fd) {
			struct cmsghdr *head;

			memset(control, 0, sizeof control);
			message.msg_control = control;
			message.msg_controllen = sizeof control;
			head = CMSG_FIRSTHDR(&message);
			head->cmsg_level = SOL_SOCKET;
			head->cmsg_type = SCM_RIGHTS;
			head->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(head), &outbox->fd, sizeof(int));
		}
		sent = sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		if (with_fd)
			outbox->fd = -1; /* its owner closes it */
		outbox->sent += (size_t)sent;
	}
	sdt_outbox_free(outbox);
	return true;
}
