//go:build linux

package region

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// networks lists the file systems whose pages come from a network or from a process, by
// their numbers in statfs(2). An idle Fire reads a byte of a mapped page. If the kernel has
// dropped the page, the read waits for that server, perhaps forever; if the server reports
// an error, the read is a SIGBUS.
//
// The numbers are from linux/magic.h and, for file systems that are not in the kernel, from
// stat(1). The same table is in cstapsdt/filesystem.c, and a test compares the two.
var networks = []uint32{
	0x0000517b, // SMB
	0x0000564c, // NCP
	0x00006969, // NFS
	0x00c36400, // Ceph
	0x01021997, // 9P, by which virtual machines and WSL share directories
	0x01161970, // GFS2
	0x013111a8, // IBRIX
	0x0bd00bd0, // Lustre
	0x19830326, // BeeGFS
	0x20030528, // OrangeFS
	0x47504653, // GPFS
	0x5346314d, // M1FS
	0x5346414f, // AFS
	0x61636673, // ACFS
	0x65735546, // FUSE, and virtiofs
	0x6b414653, // AFS, the kernel's
	0x73757245, // Coda
	0x7461636f, // OCFS2
	0x786f4256, // VirtualBox's shared folders
	0x7c7c6673, // Parallels' shared folders
	0xa501fcf5, // VxFS
	0xaad7aaea, // PanFS
	0xbacbacbc, // VMware's shared folders
	0xbeefdead, // StorNext
	0xfe534d42, // SMB 2
	0xff534d42, // CIFS
}

// The reasons not to keep an image on a file system.
var (
	errNetwork = errors.New("it is on a network or FUSE file system, whose server could stop the program")
	errNoExec  = errors.New("it is mounted noexec")
)

// IsNetwork reports whether the pages of a file system come from a network or from a process.
func IsNetwork(fs *unix.Statfs_t) bool {
	// The field's type depends on the architecture, and is signed on some.
	return slices.Contains(networks, uint32(fs.Type))
}

// checkFileSystem refuses a file system from which an image cannot or must not be mapped.
func checkFileSystem(fs *unix.Statfs_t) error {
	if err := checkLocal(fs); err != nil {
		return err
	}
	if fs.Flags&unix.ST_NOEXEC != 0 {
		return errNoExec
	}
	return nil
}

// checkLocal refuses a network or FUSE file system.
func checkLocal(fs *unix.Statfs_t) error {
	if IsNetwork(fs) {
		return fmt.Errorf("%w (type %#x)", errNetwork, uint32(fs.Type))
	}
	return nil
}
