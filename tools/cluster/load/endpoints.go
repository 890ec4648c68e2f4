package load

import "net/http"

// endpoint is one that takes an API key, with a request that is correct but for the key.
type endpoint struct {
	method, path string // with the parameters of docs/openapi.yaml
	quota        string // key; empty: it is not metered
	body         string
}

// endpoints are all that take an API key.
func endpoints() []endpoint {
	const paste, title = `{"content":"x"}`, `{"title":"x"}`
	return []endpoint{
		{http.MethodPost, "/api/dev/pastes/create", "pastes.create", paste},
		{http.MethodGet, "/api/dev/pastes/get/{ref}", "pastes.get", ""},
		{http.MethodPut, "/api/dev/pastes/update/{ref}", "pastes.update", title},
		{http.MethodDelete, "/api/dev/pastes/delete/{ref}", "pastes.delete", ""},
		{http.MethodGet, "/api/dev/pastes/list", "", ""},
		{http.MethodGet, "/api/dev/pastes/versions/{ref}", "", ""},
		{http.MethodPost, "/api/dev/paste-lite/create", "pasteLite.create", paste},
		{http.MethodGet, "/api/dev/paste-lite/get/{ref}", "pasteLite.get", ""},
		{http.MethodPut, "/api/dev/paste-lite/update/{ref}", "pasteLite.update", title},
		{http.MethodDelete, "/api/dev/paste-lite/delete/{ref}", "pasteLite.delete", ""},
		{http.MethodGet, "/api/dev/paste-lite/versions/{ref}", "", ""},
		{http.MethodGet, "/api/dev/paste-lite/list", "pasteLite.list", ""},
		{http.MethodPost, "/", "pasteLite.create", paste},
		{http.MethodPut, "/", "pasteLite.create", paste},
		{http.MethodPut, "/{name}", "pasteLite.create", paste},
		{http.MethodPost, "/api/dev/files/upload", "files.upload", "x"},
		{http.MethodGet, "/api/dev/files/get/{id}", "files.get", ""},
		{http.MethodDelete, "/api/dev/files/delete/{id}", "files.delete", ""},
		{http.MethodGet, "/api/dev/files/list", "files.list", ""},
		{http.MethodGet, "/api/users/user", "", ""},
		{http.MethodGet, "/api/users/user/dev-usage", "", ""},
		{http.MethodGet, "/api/users/user/credits", "", ""},
		{http.MethodGet, "/api/users/user/statements/{period}", "", ""},
		{http.MethodGet, "/api/users/user/usage", "", ""},
		{http.MethodGet, "/api/users/user/events", "", ""},
		{http.MethodGet, "/api/users/user/requests", "", ""},
		{http.MethodGet, "/api/users/user/requests/{requestId}", "", ""},
	}
}
