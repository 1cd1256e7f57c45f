package stream

import (
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
)

// settings are the flags that create and update have in common.
type settings struct {
	description, remoteBucket, remoteBucketID string
	maxQueueSize, bytesInFlight               flags.Size
	maxAge, backfillWindow                    time.Duration
	queueFullPolicy, onReject                 string
	fanShards                                 int
	include, exclude                          struct{ measurements, tags []string }
}

func (x *settings) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&x.description, "description", "", "for people")
	set.StringVar(&x.remoteBucket, "remoteBucket", "", "where in the remote: the bucket, for InfluxDB 1.x the database or database/policy, for a SQL database the schema")
	set.StringVar(&x.remoteBucketID, "remoteBucketID", "", "the id of the bucket in the remote, in place of --remoteBucket")
	set.Var(&x.maxQueueSize, "maxQueueSize", "the most that may wait, such as 1GiB")
	set.DurationVar(&x.maxAge, "maxAge", 0, "drop what is older, and declare it lost, such as 72h; 0s is never")
	set.StringVar(&x.queueFullPolicy, "queueFullPolicy", "", "when the queue is full: refuse, dropOldest or dropNewest")
	set.StringVar(&x.onReject, "onReject", "", "what the remote will never accept: deadLetter keeps it aside, discard counts it, stop stops the stream")
	set.DurationVar(&x.backfillWindow, "backfillWindow", 0, "fan out when the oldest write that waits is older than this")
	set.IntVar(&x.fanShards, "fanShards", 0, "transactions or requests in flight when it fans out")
	set.Var(&x.bytesInFlight, "bytesInFlight", "the most data between queue and remote, such as 16MiB")
	set.StringSliceVar(&x.include.measurements, "includeMeasurements", nil, "take only points of these measurements, such as cpu,disk*")
	set.StringSliceVar(&x.exclude.measurements, "excludeMeasurements", nil, "leave out points of these measurements")
	set.StringSliceVar(&x.include.tags, "includeTags", nil, "take only points with these tags, such as env=prod*")
	set.StringSliceVar(&x.exclude.tags, "excludeTags", nil, "leave out points with any of these tags")
	for _, name := range []string{"maxQueueSize", "bytesInFlight"} {
		set.Lookup(name).DefValue = "" // it is left alone
	}
}

// body returns what was given. A filter is what there was, with the lists in place that were given.
func (x *settings) body(cmd *cobra.Command, filter *apiclient.Filter) (apiclient.Body, error) {
	body := apiclient.Body{}
	given := cmd.Flags().Changed
	put := func(flag, field string, value any) {
		if given(flag) {
			body[field] = value
		}
	}
	put("description", "description", x.description)
	put("remoteBucket", "remoteBucketName", x.remoteBucket)
	put("remoteBucketID", "remoteBucketID", x.remoteBucketID)
	put("maxQueueSize", "maxQueueSizeBytes", int64(x.maxQueueSize))
	put("maxAge", "maxAgeSeconds", int64(x.maxAge/time.Second))
	put("queueFullPolicy", "queueFullPolicy", x.queueFullPolicy)
	put("onReject", "onReject", x.onReject)
	put("backfillWindow", "backfillWindow", x.backfillWindow.String())
	put("fanShards", "fanShards", x.fanShards)
	put("bytesInFlight", "bytesInFlight", int64(x.bytesInFlight))
	if given("maxAge") && x.maxAge%time.Second != 0 {
		return nil, exit.Usage(errors.Errorf("--maxAge: %s is no number of whole seconds", x.maxAge))
	}
	var f apiclient.Filter
	if filter != nil {
		f = *filter
	}
	changed := false
	for _, list := range []struct {
		flag string
		now  []string
		in   *[]string
	}{
		{"includeMeasurements", x.include.measurements, &f.Measurements.Include},
		{"excludeMeasurements", x.exclude.measurements, &f.Measurements.Exclude},
		{"includeTags", x.include.tags, &f.Tags.Include},
		{"excludeTags", x.exclude.tags, &f.Tags.Exclude},
	} {
		if given(list.flag) {
			*list.in, changed = list.now, true
		}
		if *list.in == nil {
			*list.in = []string{}
		}
	}
	switch {
	case changed && f.Empty():
		body["filter"] = nil
	case changed:
		body["filter"] = f
	}
	return body, nil
}

// resettable are the settings that can be given back to the server's flags, by their fields.
var resettable = map[string]string{
	"maxQueueSize": "maxQueueSizeBytes", "queueFullPolicy": "queueFullPolicy", "onReject": "onReject",
	"backfillWindow": "backfillWindow", "fanShards": "fanShards", "bytesInFlight": "bytesInFlight",
	"filter": "filter", "description": "description",
}

// reset adds the settings that are to be as if they had never been given.
func reset(body apiclient.Body, names []string) error {
	for _, name := range names {
		field, ok := resettable[name]
		if !ok {
			return exit.Usage(errors.Errorf("--reset: %q cannot be reset; give any of %v", name, resettableNames()))
		}
		if _, ok := body[field]; ok {
			return exit.Usage(errors.Errorf("--reset %s and a value for it do not go together", name))
		}
		body[field] = nil
	}
	return nil
}

func resettableNames() (names []string) {
	for name := range resettable {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
