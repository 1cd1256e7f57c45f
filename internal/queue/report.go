package queue

// Report is what can be said about a queue that is not running.
type Report struct {
	Dir    string   `json:"dir"`
	ID     ID       `json:"id"`
	Cursor Sequence `json:"cursor"`
	Floor  Sequence `json:"floor"`
	// CursorState and LossesState are ok, missing or damaged.
	CursorState string `json:"cursorState"`
	LossesState string `json:"lossesState"`
	Closed      bool   `json:"closed"` // the last process closed it properly

	Segments []SegmentReport `json:"segments"`

	// What is unsent: blocks of complete groups behind the cursor and the floor.
	FirstSeq     Sequence `json:"firstSeq"`
	LastSeq      Sequence `json:"lastSeq"`
	UnsentBlocks uint64   `json:"unsentBlocks"`
	UnsentPoints uint64   `json:"unsentPoints"`
	UnsentBytes  int64    `json:"unsentBytes"`
	OldestUnsent int64    `json:"oldestUnsent"`
	NewestUnsent int64    `json:"newestUnsent"`
	// Missing are unsent blocks that the numbers say should be there, and that are
	// neither there nor declared lost.
	Missing uint64 `json:"missing"`

	Lost     map[Reason]Total `json:"lost,omitempty"`
	Losses   []Loss           `json:"losses,omitempty"`
	Problems []Problem        `json:"problems,omitempty"`
}

// SegmentReport is what can be said about one segment.
type SegmentReport struct {
	Name     string   `json:"name"`
	Size     int64    `json:"size"`
	First    Sequence `json:"first"` // by its name
	Last     Sequence `json:"last"`  // newest valid block
	Blocks   uint64   `json:"blocks"`
	Points   uint64   `json:"points"`
	Leftover uint64   `json:"leftover,omitempty"` // blocks of failed writes, not valid
	Damaged  int64    `json:"damagedBytes,omitempty"`
	Torn     int64    `json:"tornBytes,omitempty"` // behind the last complete group
}

// Problem is something that is not as it should be.
type Problem struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	What   string `json:"what"`
	Hint   string `json:"hint,omitempty"`
}

// Inspect reads a queue that no process has open, or a copy of one, and changes
// nothing. With deep it also checks and decompresses every payload.
func Inspect(cfg Config, deep bool) (*Report, error) {
	rep, err := inspect(cfg, deep, nil)
	return rep, err
}

// Walk calls f for each block of each complete group in a queue that no process
// has open, and changes nothing. The payload is valid until f returns. Without
// all, what was sent or dropped is left out.
func Walk(cfg Config, all bool, f func(Block) error) (*Report, error) {
	return inspect(cfg, true, &walker{all: all, f: f})
}
