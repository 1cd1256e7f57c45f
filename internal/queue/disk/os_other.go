//go:build !linux

package disk

import "os"

// syncData is a full sync: F_FULLFSYNC on darwin, FlushFileBuffers on windows.
func syncData(f *os.File) error { return f.Sync() }

func preallocate(*os.File, int64) error { return nil }

func sequential(*os.File) {}
