// Package preflight is what targets say when they are asked, before anything runs, whether they could be
// used: a list of checks in plain language, each with what to do where it failed.
package preflight

// A Status says how a check ended.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Warning Status = "warning" // it works, and somebody should know
	Failed  Status = "failed"  // it would not work
	Skipped Status = "skipped" // it needs a check that failed
)

// A Check is one question and its answer. Its texts hold no secret.
type Check struct {
	// Name is what was looked at, in a word or two.
	Name string `json:"name"`
	// Status says how it ended.
	Status Status `json:"status"`
	// Found is what was found.
	Found string `json:"found"`
	// Advice is what to do; empty where there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

// A Report is the list of checks in the order in which they were made.
type Report []Check

// Add appends a check.
func (r *Report) Add(name string, status Status, found, advice string) {
	*r = append(*r, Check{name, status, found, advice})
}

// OK reports whether nothing failed.
func (r Report) OK() bool {
	for _, c := range r {
		if c.Status == Failed {
			return false
		}
	}
	return true
}
