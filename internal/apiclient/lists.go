package apiclient

import "encoding/json"

// looseLists reads the lists of a document, and passes over what is none.
type looseLists[T any] map[string][]Document[T]

// UnmarshalJSON implements json.Unmarshaler.
func (l *looseLists[T]) UnmarshalJSON(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for name, field := range fields {
		if len(field) == 0 || field[0] != '[' {
			continue
		}
		var list []Document[T]
		if err := json.Unmarshal(field, &list); err != nil {
			return err
		}
		(*l)[name] = list
	}
	return nil
}
