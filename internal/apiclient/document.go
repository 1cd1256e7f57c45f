package apiclient

import (
	"encoding/json"
	"time"
)

// A Document is what the server answered.
type Document[T any] struct {
	// Fields are those that are of use here.
	Fields T
	raw    json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Document[T]) UnmarshalJSON(text []byte) error {
	d.raw = append(d.raw[:0], text...)
	return json.Unmarshal(text, &d.Fields)
}

// MarshalJSON implements json.Marshaler: it returns all that the server answered.
func (d Document[T]) MarshalJSON() ([]byte, error) { return d.raw, nil }

// Named is what all things have that have a name.
type Named struct {
	ID    string `json:"id"`
	OrgID string `json:"orgID"`
	Name  string `json:"name"`
	// Description is for people.
	Description string `json:"description"`
}

// An Org owns everything else.
type Org struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// A Bucket is a place to write to.
type Bucket struct{ Named }

// A Remote says how to reach a target.
type Remote struct {
	Named
	RemoteURL        string `json:"remoteURL"`
	RemoteOrgID      string `json:"remoteOrgID"`
	AllowInsecureTLS bool   `json:"allowInsecureTLS"`
	SecretMissing    bool   `json:"secretMissing"`
}

// A Filter says which points a stream takes.
type Filter struct {
	Measurements Patterns `json:"measurements"`
	Tags         Patterns `json:"tags"`
}

// Patterns are what is taken and what is not.
type Patterns struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`
}

// Empty reports whether it takes all points.
func (f Filter) Empty() bool {
	return len(f.Measurements.Include)+len(f.Measurements.Exclude)+len(f.Tags.Include)+len(f.Tags.Exclude) == 0
}

// A Stream is a replication, with how it does.
type Stream struct {
	Named
	RemoteID                 string           `json:"remoteID"`
	LocalBucketID            string           `json:"localBucketID"`
	RemoteBucketName         string           `json:"remoteBucketName"`
	RemoteBucketID           string           `json:"remoteBucketID"`
	MaxQueueSizeBytes        int64            `json:"maxQueueSizeBytes"`
	CurrentQueueSizeBytes    int64            `json:"currentQueueSizeBytes"`
	RemainingBytesToBeSynced int64            `json:"remainingBytesToBeSynced"`
	LatestErrorMessage       string           `json:"latestErrorMessage"`
	MaxAgeSeconds            int64            `json:"maxAgeSeconds"`
	QueueFullPolicy          string           `json:"queueFullPolicy"`
	OnReject                 string           `json:"onReject"`
	BackfillWindow           string           `json:"backfillWindow"`
	FanShards                int              `json:"fanShards"`
	BytesInFlight            int64            `json:"bytesInFlight"`
	Filter                   *Filter          `json:"filter"`
	FilteredPoints           int64            `json:"filteredPoints"`
	Mode                     string           `json:"mode"`
	State                    string           `json:"state"`
	StateReason              string           `json:"stateReason"`
	Advice                   string           `json:"advice"`
	Notice                   string           `json:"notice"`
	Stalled                  bool             `json:"stalled"`
	LagSeconds               float64          `json:"lagSeconds"`
	LatestErrorAt            *time.Time       `json:"latestErrorAt"`
	LastSuccessAt            *time.Time       `json:"lastSuccessAt"`
	DeadLetters              *int64           `json:"deadLetters"`
	Lost                     int64            `json:"lost"`
	LostByReason             map[string]int64 `json:"lostByReason"`
}

// A Token is an authorization. Its secret is known when it is created only.
type Token struct {
	ID          string       `json:"id"`
	OrgID       string       `json:"orgID"`
	Description string       `json:"description"`
	Status      string       `json:"status"`
	Permissions []Permission `json:"permissions"`
	CreatedAt   time.Time    `json:"createdAt"`
}

// A Permission allows an action on resources of one type, or one of them.
type Permission struct {
	Action   string `json:"action"`
	Resource struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	} `json:"resource"`
}

// A DeadLetter is what a target would not take.
type DeadLetter struct {
	ID        int64     `json:"id"`
	Table     string    `json:"table"`
	Operation string    `json:"operation"`
	Payload   string    `json:"payload"`
	Reason    string    `json:"reason"`
	Time      time.Time `json:"time"`
}

// Body is what is sent to create or change something, by field; nil sets a field back.
type Body map[string]any
