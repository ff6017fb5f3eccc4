/*
 * The file systems on which no image is kept. An idle probe reads a byte of a page of its
 * file. If the page has to come from a network or from another process, the program waits
 * for it, and dies of SIGBUS if it never arrives.
 */
#include "private.h"

#include <sys/vfs.h>

/*
 * The names are those of linux/magic.h and of stat in coreutils. The same numbers are in
 * internal/region/network.go, and a test there compares the two.
 */
static const struct {
	uint32_t type;
	const char *name;
} remote_filesystems[] = {
	{0x65735546, "FUSE"},
	{0x00006969, "NFS"},
	{0xff534d42, "CIFS"},
	{0xfe534d42, "SMB2"},
	{0x0000517b, "SMB"},
	{0x01021997, "9P"},
	{0x00c36400, "CephFS"},
	{0x5346414f, "AFS"},
	{0x6b414653, "kAFS"},
	{0x73757245, "Coda"},
	{0x0000564c, "NCP"},
	{0x20030528, "OrangeFS"},
	{0x7461636f, "OCFS2"},
	{0x01161970, "GFS2"},
	{0x47504653, "GPFS"},
	{0x0bd00bd0, "Lustre"},
	{0x19830326, "BeeGFS"},
	{0xaad7aaea, "PanFS"},
	{0x61636673, "ACFS"},
	{0xbeefdead, "SNFS"},
	{0x013111a8, "IBRIX"},
	{0x5346314d, "M1FS"},
	{0xa501fcf5, "VxFS"},
	{0x786f4256, "vboxsf"},
	{0xbacbacbc, "vmhgfs"},
	{0x7c7c6673, "prl_fs"},
};

static const char *name_remote(const struct statfs *status)
{
	for (size_t i = 0; i < sizeof remote_filesystems / sizeof *remote_filesystems; i++)
		if (remote_filesystems[i].type == (uint32_t)status->f_type)
			return remote_filesystems[i].name;
	return NULL;
}

/*
 * sdt_remote_filesystem returns the name of the file system that the path is on if it is
 * one of these, or NULL.
 */
const char *sdt_remote_filesystem(const char *path)
{
	struct statfs status;

	return statfs(path, &status) == 0 ? name_remote(&status) : NULL;
}

/* sdt_remote_filesystem_of does the same for an open file. */
const char *sdt_remote_filesystem_of(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) == 0 ? name_remote(&status) : NULL;
}
