"""Where runs are executed. Engines are interchangeable: ``protocol`` says what one is, ``local`` is the default."""
