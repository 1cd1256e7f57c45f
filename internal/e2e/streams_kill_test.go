package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// TestKilledWhileStreamsAreMadeAndDeleted kills the server again and again while streams are made, changed
// and deleted. Each start has every stream that was answered for, none that was deleted, a queue for each
// and no other; and the stream that nobody touched has every write that was acknowledged.
func TestKilledWhileStreamsAreMadeAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := seeded(t)
	made, deleted := map[string]bool{}, map[string]bool{}
	acked := 0
	for round := range testenv.Count(4, 60) {
		p := launch(t, dir)
		bucket, remote, first := p.defaults()
		p.consistent(t, first, made, deleted)
		token := p.token()
		var mu sync.Mutex
		var hands sync.WaitGroup
		ended := make(chan struct{})
		for hand := range 3 {
			hands.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-ended:
						return
					default:
					}
					name := fmt.Sprintf("s-%d-%d-%d", round, hand, i)
					id, ok := p.tryCreate(token, fmt.Sprintf(`{"orgID":"%s","name":"%s","remoteID":"%s","localBucketID":"%s"}`, p.org, name, remote, bucket))
					if !ok {
						continue
					}
					mu.Lock()
					made[id] = true
					mu.Unlock()
					if i%2 == 0 {
						mu.Lock()
						delete(made, id) // it may be there or not, until that is answered
						mu.Unlock()
						if p.tryDelete(token, id) {
							mu.Lock()
							deleted[id] = true
							mu.Unlock()
						}
					}
				}
			})
		}
		hands.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				status, _, err := p.post(token, v2("default"), fmt.Sprintf("m v=1 %d", acked+1))
				if err == nil && status == http.StatusNoContent {
					acked++
				}
			}
		})
		<-time.After(time.Duration(50+rng.IntN(600)) * time.Millisecond)
		p.kill()
		close(ended)
		hands.Wait()
	}
	p := launch(t, dir)
	_, _, first := p.defaults()
	p.consistent(t, first, made, deleted)
	eventually(t, time.Minute, "acknowledged writes are missing", func() bool {
		return acked == 0 || count(t, openTarget(t, dir), "SELECT count(*) FROM m") >= acked
	})
	t.Logf("%d streams were made, %d deleted, %d writes acknowledged", len(made), len(deleted), acked)
}

// consistent compares what is listed, what has a queue and what was answered.
func (p *process) consistent(t *testing.T, first string, made, deleted map[string]bool) {
	t.Helper()
	var list struct {
		Replications []struct{ ID, State, OrgID string }
	}
	p.must(http.MethodGet, "/api/v2/replications?orgID=ORG", "", &list)
	var listed []string
	for _, r := range list.Replications {
		p.org = r.OrgID
		listed = append(listed, r.ID)
		if deleted[r.ID] {
			t.Errorf("%s was deleted, and is there", r.ID)
		}
		if strings.Contains(r.State, "broken") {
			t.Errorf("%s is %s", r.ID, r.State)
		}
	}
	for id := range made {
		if !slices.Contains(listed, id) {
			t.Errorf("%s was made, and is not there", id)
		}
	}
	slices.Sort(listed)
	if !slices.Contains(listed, first) {
		t.Errorf("the default stream is not among %q", listed)
	}
	// Deletions that were cut short go on after the start.
	eventually(t, time.Minute, "the queues are not those of the streams", func() bool { return slices.Equal(listed, p.queueDirs(t)) })
	if strings.Contains(p.output(), "holds what was never sent") {
		t.Errorf("a queue was left behind:\n%s", p.output())
	}
}

// queueDirs returns the names of the queues' directories, sorted.
func (p *process) queueDirs(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.dir, "replicationq"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
