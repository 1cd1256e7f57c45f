// Package simdisk is a file system in memory that behaves as badly as a real one
// may.
//
// [Disk.Crash] returns what could be on the device if the power failed now: of
// everything that was not synced, any part may be there, in sectors of 512 bytes
// and in any order; names that were not synced may be old or new, and a directory
// whose parent was not synced may be gone with all that is in it. [Disk.OnChange]
// is called before every operation that changes something, which is where a test
// takes such an image. [Disk.OnFault] makes operations fail, before or after they
// took effect, and a failed Sync forgets pages as kernels do: the file reads as if
// nothing were wrong, and a later Sync of it succeeds and makes nothing durable.
package simdisk
