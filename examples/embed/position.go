package main

import (
	"cmp"
	"maps"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A position is how far the directory has been read. It is a logical.Stamp: rows only ever get more, so
// that their count orders positions, whatever order the files are found in.
type position struct {
	// Rows is how many rows there are up to here, in all files.
	Rows uint64 `json:"rows"`
	// Files are the bytes of each file that have been read.
	Files map[string]int64 `json:"files,omitempty"`
}

var _ logical.OffsetStamp = position{}

// Compare implements logical.Stamp.
func (p position) Compare(other logical.Stamp) int { return cmp.Compare(p.Rows, other.(position).Rows) }

// Offset implements logical.OffsetStamp.
func (p position) Offset() uint64 { return p.Rows }

// after returns the position behind some more rows of a file. Positions are immutable.
func (p position) after(file string, offset int64, rows int) position {
	files := maps.Clone(p.Files)
	if files == nil {
		files = map[string]int64{}
	}
	files[file] = offset
	return position{Rows: p.Rows + uint64(rows), Files: files}
}
