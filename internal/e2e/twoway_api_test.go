package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// allRows returns what is in a table of the two servers, as text.
func allRows(t *testing.T, db *sql.DB) (rows []string) {
	t.Helper()
	result, err := db.QueryContext(t.Context(), "SELECT concat_ws('|', time, hex(series), host, tailrace_origin, v, s) FROM m ORDER BY 1")
	must(t, err)
	defer func() { _ = result.Close() }()
	for result.Next() {
		var row string
		must(t, result.Scan(&row))
		rows = append(rows, row)
	}
	must(t, result.Err())
	return rows
}

// linkTo makes, over the API, a replication to another server that leaves out what was first written there.
// It has a token that may write to one bucket there, and nothing else.
func (p *process) linkTo(peer *process, peerID string) (replication string) {
	p.t.Helper()
	there, _, _ := peer.defaults()
	here, _, _ := p.defaults()
	var token, remote, made created
	peer.must(http.MethodPost, "/api/v2/authorizations", `{"orgID":"ORG","scope":"write","bucketID":"`+there+`"}`, &token)
	p.must(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":"peer","remoteURL":%q,"remoteAPIToken":%q}`, peer.url, token.Token), &remote)
	p.must(http.MethodPost, "/api/v2/replications", fmt.Sprintf(`{"orgID":"ORG","name":"to the peer","remoteID":%q,"localBucketID":%q,
		"remoteBucketName":"default","filter":{"tags":{"exclude":["tailrace_origin=%s"]}}}`, remote.ID, here, peerID), &made)
	return made.ID
}

// CONVERGE: two servers that replicate to each other, made over the API alone, come to rest, hold the same
// points, and each point passed once, by the way from its origin. So it stays when one is killed and comes
// back.
func TestConvergeOfTwoServersByTheAPI(t *testing.T) {
	t.Parallel()
	const writers, writes = 3, 50
	const each = writers * writes
	ids := []string{"plant a", "plant=b"} // both need escaping, in lines and in the filter
	plants := make([]*process, 2)
	for i, id := range ids {
		plants[i] = launch(t, t.TempDir(), "--instanceID", id, "--retryDelay", "50ms", "--standbyTimeout", "100ms")
	}
	links := []string{plants[0].linkTo(plants[1], ids[1]), plants[1].linkTo(plants[0], ids[0])}
	dbs := []*sql.DB{openTarget(t, plants[0].dir), openTarget(t, plants[1].dir)}
	writeAll := func(round int) {
		var writing sync.WaitGroup
		for i, p := range plants {
			token := p.token()
			for w := range writers {
				writing.Go(func() {
					for k := range writes {
						line := fmt.Sprintf("m,host=h\\ %d.%d v=%di,s=\"a\\\"b\\\\c\nd\" %d\n", i, w, k, 1_700_000_000_000_000_000+round*writes+k)
						eventually(t, time.Minute, "a write is not taken", func() bool {
							status, _, err := plants[i].post(token, "/api/v2/write?bucket=default", line)
							return err == nil && status == http.StatusNoContent
						})
					}
				})
			}
		}
		writing.Wait()
	}
	equal := func(total int) {
		t.Helper()
		for _, db := range dbs {
			awaitCount(t, db, "SELECT count(*) FROM m", total)
		}
		for i, p := range plants {
			eventually(t, 2*time.Minute, "points still go around", func() bool { return p.replication(links[i]).RemainingBytesToBeSynced == 0 })
		}
		a, b := allRows(t, dbs[0]), allRows(t, dbs[1])
		if !slices.Equal(a, b) {
			t.Errorf("the servers do not hold the same %d and %d points", len(a), len(b))
		}
		for _, id := range ids {
			if n := len(slices.DeleteFunc(slices.Clone(a), func(row string) bool { return strings.Split(row, "|")[3] != id })); n != total/2 {
				t.Errorf("%d points are by %s, want %d", n, id, total/2)
			}
		}
	}
	writeAll(0)
	equal(2 * each)
	for i, p := range plants {
		label := `replicationID="` + links[i] + `"`
		if sent := p.metric("replications_queue_remote_write_points_sent", label); sent != each {
			t.Errorf("%s sent %v points, want its own %d", ids[i], sent, each)
		}
		if back := p.metric("replications_queue_points_filtered", label); back != each {
			t.Errorf("%s kept %v points from going back, want %d", ids[i], back, each)
		}
	}

	address := strings.TrimPrefix(plants[1].url, "http://")
	plants[1].kill()
	for k := range writes {
		plants[0].write(fmt.Sprintf("m,host=alone v=%di %d", k, 1_600_000_000_000_000_000+k))
	}
	plants[1] = begin(t, plants[1].dir, nil, "--dataDir", plants[1].dir, "--bindAddr", address, "--instanceID", ids[1], "--retryDelay", "50ms")
	for k := range writes {
		plants[1].write(fmt.Sprintf("m,host=back v=%di %d", k, 1_600_000_000_000_000_000+k))
	}
	writeAll(1)
	equal(2 * (2*each + writes))
}
