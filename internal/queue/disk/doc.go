// Package disk is the little that the queue asks of a file system, and the real
// file system behind it.
//
// The queue does not call package os itself. Every operation that can fail, tear
// or be forgotten by a power cut goes through [FS] and [File], so that a test can
// let each of them do so (package simdisk does).
//
// What a caller may rely on after a power cut is only this:
//
//   - bytes that were written before a [File.Sync] that returned nil are there;
//   - names that were created, renamed or removed before an [FS.SyncDir] of their
//     directory that returned nil are there, or gone;
//   - everything else may be there wholly, partly, or not at all, in any order;
//   - after a Sync that failed, nothing is known of what was written since the
//     last good one, and a later Sync of the same file that returns nil does not
//     change that: the kernel may have forgotten the dirty pages.
package disk
