package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

func TestMadeDirectoriesSurvivePowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		d := simdisk.New(seed)
		require.NoError(t, disk.MkdirAll(d, "/a"))
		require.NoError(t, disk.MkdirAll(d, "/a/b/c/"))
		_, err := d.Crash(seed).List("/a/b/c")
		require.NoError(t, err, "seed %d", seed)
	}
}

// TestDirectoryOfADeadProcessIsMadeDurable begins where another process made the directory and died
// before it could sync the parent.
func TestDirectoryOfADeadProcessIsMadeDurable(t *testing.T) {
	t.Parallel()
	lost := 0
	for seed := range uint64(200) {
		d := simdisk.New(seed)
		require.NoError(t, d.Mkdir("/a"))
		if _, err := d.Crash(seed).List("/a"); err != nil {
			lost++
		}
		require.NoError(t, disk.MkdirAll(d, "/a"))
		_, err := d.Crash(seed).List("/a")
		require.NoError(t, err, "seed %d", seed)
	}
	require.NotZero(t, lost, "the disk never forgets a directory")
}

func TestParentThatCannotBeSynced(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EINVAL, syscall.EIO} {
		t.Run(errno.Error(), func(t *testing.T) {
			t.Parallel()
			d := simdisk.New(1)
			d.OnFault = func(op simdisk.Op) *simdisk.Fault {
				if op.Kind == "syncdir" {
					return &simdisk.Fault{Err: errno}
				}
				return nil
			}
			require.ErrorIs(t, disk.MkdirAll(d, "/new"), errno, "a new directory is not durable")
			err := disk.MkdirAll(d, "/new")
			if errno == syscall.EIO {
				require.ErrorIs(t, err, errno)
			} else {
				require.NoError(t, err, "a directory of someone else")
			}
		})
	}
}

func TestMkdirAllOnTheRealFileSystem(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for range 2 {
		require.NoError(t, disk.MkdirAll(disk.OS(), filepath.Join(top, "a", "b", "c")))
	}
	require.NoError(t, disk.MkdirAll(disk.OS(), string(filepath.Separator)))
	file := filepath.Join(top, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		require.Error(t, disk.MkdirAll(disk.OS(), dir), fmt.Sprintf("%s is a file", dir))
	}
}
