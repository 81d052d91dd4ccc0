"""What more devices would bring: rates measured here, a cost model, and how far it is off."""
